"""Child processes that never outlive the benchmark."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from benchmarks.harness.signals import deferred_signals

#: Seconds in which a process may end after SIGTERM.
STOP_TIMEOUT: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Children:
    """Starts processes, and ends the remaining ones at the end of the `with` block.

    Linux kills them with this process. Not for programs with other Python threads: between fork and
    exec a child runs some Python code.
    """

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Children:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with deferred_signals():
            for process in reversed(self._running):
                process.terminate()
            while self._running:
                _wait(self._running.pop())

    def start(
        self,
        arguments: Sequence[str],
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] | None = subprocess.DEVNULL,
        stdout: int | IO[bytes] | None = subprocess.DEVNULL,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Ctrl-C reaches only the benchmark."""
        with deferred_signals():
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=functools.partial(_set_parent_death_signal, os.getpid()),
            )
            self._running.append(process)
            return process

    def has_ended(self, process: subprocess.Popen[bytes]) -> bool:
        with deferred_signals():
            return process.poll() is not None

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Terminate a process, and kill it after the timeout; return its status."""
        with deferred_signals():
            process.terminate()
            _wait(process)
            self._running.remove(process)
            return process.returncode


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            # Unwritten input of an ended process is no loss.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _set_parent_death_signal(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent died before prctl.
        os._exit(1)
