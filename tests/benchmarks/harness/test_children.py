from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.harness.children import Children

ROOT = Path(__file__).resolve().parents[3]
WAITS = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    "print('up', flush=True); signal.pause(); signal.pause()",
]
#: Prints the child's process id.
PARENT = f"""
import signal, subprocess
from benchmarks.harness.children import Children
with Children() as children:
    child = children.start({WAITS!r}, stdout=subprocess.PIPE)
    child.stdout.readline()
    print(child.pid, flush=True)
    signal.pause()
"""


def started(children: Children, command: list[str]) -> subprocess.Popen[bytes]:
    process = children.start(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    return process


def test_children_end_when_the_block_ends() -> None:
    with Children() as children:
        processes = [started(children, WAITS) for _ in range(2)]
    assert [process.returncode for process in processes] == [-signal.SIGTERM] * 2


def test_children_end_when_the_block_fails() -> None:
    with pytest.raises(ZeroDivisionError), Children() as children:
        process = started(children, WAITS)
        raise ZeroDivisionError
    assert process.returncode == -signal.SIGTERM


def test_a_child_that_does_not_end_when_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.harness.children.STOP_TIMEOUT", 0.1)
    with Children() as children:
        process = started(children, STUBBORN)
    assert process.returncode == -signal.SIGKILL


def test_a_child_dies_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    # Readable when the process has ended.
    try:
        assert select.select([child], [], [], 30.0)[0] == [child]
    finally:
        os.close(child)
