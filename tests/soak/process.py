from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
#: The process ends with the soak, even by `kill -9`.
DIES_WITH_PARENT: Final = f"import ctypes; ctypes.CDLL(None).prctl(1, {int(signal.SIGKILL)})\n"
#: Seconds after SIGTERM.
STOP_SECONDS: Final = 15.0


class SoakProcess:
    """Python code in its own session."""

    def __init__(self, code: str, arguments: Sequence[str], folder: Path, log: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-c", DIES_WITH_PARENT + code, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                # Ctrl-C must reach only the soak.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    @property
    def status(self) -> int | None:
        """Negative for a signal."""
        return self._process.poll()

    def send(self, number: signal.Signals) -> None:
        if self.is_running:
            self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def kill_all(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float = STOP_SECONDS) -> bool:
        """Return whether the end came in time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return not self.is_running


def children_of(pid: int, part_of_command: str) -> list[int]:
    found = []
    for other in map(int, filter(str.isdigit, os.listdir("/proc"))):
        try:
            status = Path(f"/proc/{other}/stat").read_text()
            command = Path(f"/proc/{other}/cmdline").read_bytes()
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        if parent == pid and part_of_command.encode() in command:
            found.append(other)
    return found
