"""Child processes that never outlive the benchmark, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final

#: How long (seconds) a process that was asked to end may take.
PATIENCE: Final = 10.0
_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Children:
    """Starts processes, and ends all that still run when the `with` block is left.

    Linux also kills each of them when this process is killed itself.
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
        for process in reversed(self._running):
            process.terminate()
        for process in reversed(self._running):
            self._wait(process)
        self._running.clear()

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
        process = subprocess.Popen(
            arguments,
            cwd=folder,
            env=None if environment is None else {**os.environ, **environment},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        self._running.append(process)
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> int:
        """Ask a process to end, wait for it, and kill it if that takes too long; its status."""
        process.terminate()
        self._wait(process)
        if process in self._running:
            self._running.remove(process)
        return process.returncode

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.wait(PATIENCE)
        except BaseException as error:
            # Also when a second Ctrl-C comes while we wait: nothing is left behind.
            process.kill()
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
