"""A wheel is built, installed into a clean environment, and used outside the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import attrs
import pytest

from tests.capability import need

ROOT = Path(__file__).resolve().parents[2]
#: Copied, so that building leaves nothing in the checkout.
SOURCES = ("setup.cfg", "pyproject.toml", "README.md", "LICENSE", "broker", "plugins", "dtd")
OLDEST_SETUPTOOLS = 75

pytestmark = [pytest.mark.system, pytest.mark.slow]


@attrs.frozen
class Installation:
    wheel: Path
    prefix: Path
    other_folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.prefix / "bin" / command[0]), *command[1:]],
            cwd=self.other_folder,
            env={"PATH": f"{self.prefix / 'bin'}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    need("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    wheel = build_wheel(copy_sources(folder / "sources"), folder / "dist")
    prefix = folder / "environment"
    make_environment(prefix)
    python(
        *("-m", "pip", "--python", str(prefix / "bin" / "python"), "install", "--quiet"),
        *("--no-index", "--no-deps", "--disable-pip-version-check", str(wheel)),
    )
    other_folder = folder / "other_folder"
    other_folder.mkdir()
    return Installation(wheel, prefix, other_folder)


def python(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def copy_sources(target: Path) -> Path:
    target.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "dropin.cache")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignore)
        else:
            shutil.copy(ROOT / name, target / name)
    shutil.copytree(ROOT / "twisted", target / "twisted", ignore=ignore)
    return target


def build_wheel(sources: Path, target: Path) -> Path:
    python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(target), str(sources))
    (wheel,) = target.glob("*.whl")
    return wheel


def make_environment(prefix: Path) -> None:
    """Make a virtual environment with our dependencies but without our packages.

    A `.pth` file adds the packages of the running environment. Python ignores `.pth` files in such
    folders, so an editable installation stays unseen.
    """
    venv.create(prefix, with_pip=False, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(prefix)})
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(packages) / "borrowed.pth").write_text("\n".join(sorted(borrowed)) + "\n")
    twistd = prefix / "bin" / "twistd"
    twistd.write_text(
        f"#!/bin/sh\n'''exec' '{prefix / 'bin' / 'python'}' \"$0\" \"$@\"\n' '''\n"
        "from twisted.scripts.twistd import run\nrun()\n"
    )
    twistd.chmod(0o755)


def test_clean_environment_uses_the_wheel(installation: Installation) -> None:
    done = installation.run("python", "-c", "import broker, plugins; print(broker.__file__)")
    assert done.stdout.startswith(str(installation.prefix)), done.stderr


def test_the_wheel_says_that_it_is_typed(installation: Installation) -> None:
    with zipfile.ZipFile(installation.wheel) as wheel:
        assert {"broker/py.typed", "plugins/py.typed"} <= set(wheel.namelist())


def test_twistd_lists_the_node(installation: Installation) -> None:
    done = installation.run("twistd", "--help")
    assert done.returncode == 0, done.stderr
    assert "A node of the xmlbroker publish/subscribe network" in done.stdout


def test_twistd_xmlbroker_help_shows_options(installation: Installation) -> None:
    done = installation.run("twistd", "xmlbroker", "--help")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--config" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_command_line_tool_is_installed(installation: Installation) -> None:
    done = installation.run("xmlbroker", "--help")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "config" in done.stdout


def test_installed_stack_is_found(
    installation: Installation,
) -> None:
    done = installation.run(
        *("python", "-c"),
        "from broker.transport import stacks\nprint(type(stacks.find_stack('mspaces')).__module__)",
    )
    assert done.stdout.strip() == "plugins.mspaces.stack", done.stderr


def test_dtds_are_installed_and_found(installation: Installation) -> None:
    done = installation.run(
        "python",
        "-c",
        "from broker.dtd.catalogue import shipped_folder as f;"
        "print(f());print(*sorted(p.name for p in f().iterdir()), sep='\\n')",
    )
    folder, *names = done.stdout.split("\n")[:-1]
    assert Path(folder) == installation.prefix / "share" / "xmlbroker" / "dtd", done.stderr
    assert names == sorted(path.name for path in (ROOT / "dtd").iterdir())


def test_wheel_holds_only_our_packages(installation: Installation) -> None:
    names = zipfile.ZipFile(installation.wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.startswith("xmlbroker-")} == {
        "broker",
        "plugins",
        "twisted",
    }
    assert sorted(name for name in names if name.startswith("twisted/")) == [
        "twisted/plugins/xmlbroker_dcp.py",
        "twisted/plugins/xmlbroker_mspaces.py",
        "twisted/plugins/xmlbroker_plugin.py",
        "twisted/plugins/xmlbroker_rcm.py",
    ]
    files = [name.rsplit("/", 1)[-1] for name in names]
    assert not [file for file in files if file.startswith(("test_", "dropin.cache"))]


def test_wheel_holds_every_module(installation: Installation) -> None:
    names = set(zipfile.ZipFile(installation.wheel).namelist())
    sources = [path for top in ("broker", "plugins") for path in (ROOT / top).rglob("*.py")]
    assert {path.relative_to(ROOT).as_posix() for path in sources} <= names
