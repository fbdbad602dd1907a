from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capability import need
from tests.transport.documented import documented

ROOT = Path(__file__).resolve().parents[2]
OLDEST_SETUPTOOLS = 75

pytestmark = [pytest.mark.system]

#: Find the stack by its name, and send through two ends of it.
PROGRAM = """
import sys
from pathlib import Path

from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher

import twisted.plugins

noted = []
globalLogPublisher.addObserver(noted.append)

from broker.transport.driver import StackDriver
from broker.transport.socket import TCP_PROPERTIES
from broker.transport.stacks import StackSettings, build_stack, find_stack, find_stacks
from broker.testing.memory_network import MemoryNetwork
from tests.capability import need

class Receiver:
    def __init__(self):
        self.messages = []
    def messages_received(self, peer, messages):
        self.messages += messages
    def view_changed(self, peer, view): pass
    def writable_changed(self, peer, writable): pass

clock = Clock()
network = MemoryNetwork(clock)
ends = []
for incarnation in (1, 2):
    ferry = find_stack("ferry")
    settings = StackSettings(incarnation=incarnation, options=ferry.options(most=5))
    stack = build_stack(ferry, settings, TCP_PROPERTIES)
    ends.append(StackDriver(stack.layers, clock, Receiver(), stack.bottom))
links = [end.join("peer") for end in ends]
network.listen("there", links[1].attach)
network.connect("there").addCallback(links[0].attach)
for _ in range(100):
    clock.advance(0.01)
links[0].send([b"over", b"the", b"water"])
for _ in range(100):
    clock.advance(0.01)
print(*(stack.name for stack in find_stacks()))
print(*(message.decode() for message in ends[1].receiver.messages))
print(links[1].cores[0].count)
print(Path(sys.modules["ferry.stack"].__file__).parent.parent)
print(len([event for event in noted if event["log_level"] >= LogLevel.warn]))
print(len([event for event in noted if sys.argv[1] in str(event.get("path"))]))
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the installed package."""
    need("setuptools")
    folder = tmp_path_factory.mktemp("ferry")
    layer, upper, stack, drop_in, suite = documented("python")[:5]
    (configuration,) = documented("ini")
    for name, text in {
        "ferry/__init__.py": "",
        "ferry/tally.py": layer,
        "ferry/clock.py": upper,
        "ferry/test_stack.py": suite,
        "ferry/stack.py": stack,
        "twisted/plugins/ferry_stack.py": drop_in,
        "setup.cfg": configuration,
        "pyproject.toml": (ROOT / "pyproject.toml").read_text(),
    }.items():
        path = folder / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    target = folder / "installed"
    python(
        *("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
        *("--no-deps", "--no-build-isolation", "--target", str(target), str(folder / "sources")),
    )
    return target


def python(*arguments: str, path: str = "") -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(target: Path) -> list[str]:
    path = os.pathsep.join((str(target), str(ROOT)))
    return python("-c", PROGRAM, str(target), path=path).splitlines()


def test_the_installed_stack_is_found_and_carries_messages(target: Path) -> None:
    stacks, messages, count, origin, warnings, _ = run(target)
    assert stacks.split() == ["dcp", "ferry", "mspaces", "rcm"]
    assert messages == "over the water"
    assert int(count) > 3  # p2p's packets went through the layer of the package
    assert origin == str(target)
    assert warnings == "0"
    assert (target / "twisted" / "plugins" / "dropin.cache").is_file()


def test_it_works_where_the_cache_can_not_be_written(target: Path) -> None:
    cache = target / "twisted" / "plugins" / "dropin.cache"
    cache.unlink(missing_ok=True)
    # No user can write a file there, not even root.
    cache.mkdir()
    stacks, messages, _, _, warnings, notes = run(target)
    assert (stacks, messages) == ("dcp ferry mspaces rcm", "over the water")
    assert (warnings, notes) == ("0", "1")


def test_it_passes_the_contract_of_a_stack(target: Path) -> None:
    path = os.pathsep.join((str(target), str(ROOT)))
    python("-m", "unittest", "ferry.test_stack", path=path)
