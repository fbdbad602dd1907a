"""mosquitto as a child process, from its Debian package."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.harness.children import Children
from benchmarks.harness.debian import Unavailable, install
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.node_process import is_listening
from examples.free_ports import free_port

_STARTUP: Final = 10.0
_GLANCE: Final = 0.01


def executable() -> str:
    """Return the path, after installing the package if possible. Raises `Unavailable`."""
    found = _find()
    if found is None:
        install("mosquitto")
        found = _find()
    if found is None:
        raise Unavailable("mosquitto could not be installed")
    return found


def version(program: str) -> str:
    output = subprocess.run([program, "-h"], capture_output=True, text=True, check=False).stdout
    return output.splitlines()[0].removeprefix("mosquitto version ") if output else "unknown"


class MosquittoProcess:
    """Accepts anyone, without persistence or logging."""

    def __init__(self, children: Children, program: str, folder: Path) -> None:
        self.port = free_port()
        self._children = children
        settings = folder / "mosquitto.conf"
        settings.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\n"
            # A process that changes its user loses its parent-death signal.
            "persistence false\nlog_dest none\nuser root\n"
        )
        self._process = children.start([program, "-c", str(settings)], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _STARTUP
        while not is_listening(self.port):
            if children.has_ended(self._process) or time.monotonic() > deadline:
                raise BenchmarkFailed("mosquitto did not start")
            time.sleep(_GLANCE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._children.stop(self._process)


def _find() -> str | None:
    # Debian's daemons are outside a user's PATH.
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
