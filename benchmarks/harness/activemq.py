"""The peer that filters on content: ActiveMQ, from its Debian package, in a process of its own."""

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

#: What the virtual machine is given; the rest is as it comes.
JAVA_OPTIONS: Final = ("-Xms1g", "-Xmx1g", "-Dorg.apache.activemq.UseDedicatedTaskRunner=false")
#: STOMP alone, nothing on disk, nothing published about itself.
BROKER_OPTIONS: Final = "persistent=false&useJmx=false&advisorySupport=false"

_HOME: Final = Path("/usr/share/activemq")
_STARTUP: Final = 60.0
_GLANCE: Final = 0.05


def available() -> str:
    """Its version; installs the Debian package if that is possible. Raises `Unavailable`."""
    if not _is_here():
        install("activemq")
    if not _is_here():
        raise Unavailable("activemq could not be installed")
    return package_version("activemq")


class ActiveMqProcess:
    """Accepts anyone on a free loopback port; whatever it writes goes into `folder`."""

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
        """Of the broker's process."""
        return self._process.pid

    def stop(self) -> None:
        """End it."""
        self._children.stop(self._process)

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace").strip()[-500:]


def _is_here() -> bool:
    return shutil.which("java") is not None and (_HOME / "bin" / "activemq.jar").is_file()
