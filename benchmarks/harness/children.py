"""Child processes that never outlive the benchmark, however it ends."""

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

from benchmarks.harness.interruption import undisturbed

#: How long (seconds) a process that was asked to end may take.
PATIENCE: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Children:
    """Starts processes, and ends all that still run when the `with` block is left.

    Linux also kills each of them when this process is killed itself. To be used where no other
    thread runs Python: between fork and exec a child runs a little of it.
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
        with undisturbed():
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
        """A new process in a session of its own, so that Ctrl-C reaches it by way of us alone."""
        with undisturbed():
            process = subprocess.Popen(
                arguments,
                cwd=folder,
                env=None if environment is None else {**os.environ, **environment},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=functools.partial(_die_with, os.getpid()),
            )
            self._running.append(process)
            return process

    def has_ended(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether a process is over."""
        with undisturbed():
            return process.poll() is not None

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Ask a process to end, wait for it, and kill it if that takes too long; its status."""
        with undisturbed():
            process.terminate()
            _wait(process)
            self._running.remove(process)
            return process.returncode


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            # What was not written to a process that is over is no loss.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _die_with(parent: int) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It died before it could be noted.
        os._exit(1)
