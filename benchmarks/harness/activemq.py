"""ActiveMQ as a child process: the peer that filters on content."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from benchmarks.harness.children import Children
from benchmarks.harness.debian import Unavailable, install, package_version
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.node_process import is_listening
from examples.free_ports import free_port

#: All else is default.
JAVA_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-Dorg.apache.activemq.UseDedicatedTaskRunner=false")
#: STOMP alone, no persistence, no own messages.
BROKER_OPTIONS: Final = "persistent=false&useJmx=false&advisorySupport=false"

_HOME: Final = Path("/usr/share/activemq")
_STARTUP: Final = 60.0
_GLANCE: Final = 0.05


def available() -> str:
    """Return the version, after installing the package if possible. Raises `Unavailable`."""
    if not _is_here():
        install("activemq")
    if not _is_here():
        raise Unavailable("activemq could not be installed")
    return package_version("activemq")


class ActiveMqProcess:
    """Accepts anyone; its files are in `folder`."""

    def __init__(self, children: Children, folder: Path) -> None:
        self.port = free_port()
        self._children = children
        self._log = folder / "activemq.log"
        with open(self._log, "wb") as log:
            self._process = children.start(
                [
                    *("java", *JAVA_OPTIONS, f"-Djava.io.tmpdir={folder}"),
                    f"-Dactivemq.home={_HOME}",
                    *(f"-Dactivemq.{kind}={folder}" for kind in ("base", "conf", "data")),
                    *("-jar", str(_HOME / "bin" / "activemq.jar"), "start"),
                    f"broker:(stomp://127.0.0.1:{self.port})?{BROKER_OPTIONS}",
                ],
                folder=folder,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + _STARTUP
        while not is_listening(self.port):
            if children.has_ended(self._process) or time.monotonic() > deadline:
                raise BenchmarkFailed(f"ActiveMQ did not start: {self._last_words()}")
            time.sleep(_GLANCE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        self._children.stop(self._process)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-500:]


def _is_here() -> bool:
    return shutil.which("java") is not None and (_HOME / "bin" / "activemq.jar").is_file()
