from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.faults import FAULTS

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
QUICK_FAULTS = "kill,cut,partition,freeze,client-kill,client-close"


def soak(*arguments: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.soak", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def find_leftovers(folder: Path) -> list[str]:
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdigit() and os.readlink(each / "cwd").startswith(str(folder)):
                found.append((each / "cmdline").read_text())
        except OSError:
            continue
    return found + [str(path) for path in folder.iterdir()]


@pytest.mark.soak
def test_short_run_succeeds_and_leaves_nothing(tmp_path: Path) -> None:
    arguments = ("--seed", "3", "--minutes", "0.01", "--seconds", "8", "--faults", QUICK_FAULTS)
    with soak(*arguments, folder=tmp_path) as run:
        text, _ = run.communicate(timeout=240)
    assert run.returncode == 0, text
    assert "seeds 3 to 3:" in text and "violations in none" in text
    assert find_leftovers(tmp_path) == []


def test_ctrl_c_ends_the_soak_and_leaves_nothing(tmp_path: Path) -> None:
    with soak("--seed", "4", "--seconds", "600", "--faults", "cut", folder=tmp_path) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith("faults: cut")
        while not any(tmp_path.glob("xmlbroker-soak-4-*/a1/node.log")):
            assert run.poll() is None
        run.send_signal(signal.SIGINT)
        run.send_signal(signal.SIGINT)
        text = run.stdout.read()
        assert run.wait(60) == 130, text
    assert "stopped; the run of seed 4 was not checked" in text
    assert find_leftovers(tmp_path) == []


def test_unknown_fault_is_refused(tmp_path: Path) -> None:
    with soak("--faults", "kill,thunder", folder=tmp_path) as run:
        text, _ = run.communicate(timeout=60)
    assert run.returncode == 2
    assert "thunder" in text


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_alone(fault: str, tmp_path: Path) -> None:
    arguments = ("--seed", "100", "--minutes", "0.01", "--seconds", "20", "--faults", fault)
    with soak(*arguments, folder=tmp_path) as run:
        text, _ = run.communicate(timeout=600)
    assert run.returncode == 0, text
