from __future__ import annotations

import re
import signal
from typing import Final

from tests.soak.disk import Disk
from tests.soak.layout import Layout
from tests.soak.process import SoakProcess, children_of
from tests.system.stepped_clock import PRELUDE

_RUN: Final = "from twisted.scripts.twistd import run; run()"
_READY: Final = re.compile(r"node \S+ is ready: log (\S+?),")


class SoakNode:
    def __init__(self, name: str, layout: Layout) -> None:
        self.name = name
        self.layout = layout
        self.folder = layout.folder / name
        self.disk = Disk(layout.data(name))
        self._log = self.folder / "node.log"
        self.process: SoakProcess | None = None
        self.is_claimed = False
        """By a fault."""

    def start(self, faults: str = "") -> None:
        """Start with the previous data."""
        if self.is_running:
            return
        settings = self.folder / "node.toml"
        settings.write_text(self.layout.settings(self.name, faults))
        arguments = ("-n", "--pidfile=", "xmlbroker", "--config", str(settings))
        self.process = SoakProcess(PRELUDE + _RUN, arguments, self.folder, self._log)

    @property
    def is_running(self) -> bool:
        """Paused or not."""
        return self.process is not None and self.process.is_running

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None and self.process.is_running else 0

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send(number)

    def kill(self, *, machine: bool = False) -> None:
        """With `machine`, kill the child processes, too."""
        if self.process is not None:
            if machine:
                self.process.kill_all()
            else:
                self.process.kill()

    def stop(self) -> None:
        if self.process is not None:
            self.process.send(signal.SIGTERM)
            self.process.wait()
            self.process.kill_all()

    def archivers(self) -> list[int]:
        return children_of(self.pid, "broker.archiver") if self.pid else []

    def read_log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def origins(self) -> set[str]:
        return set(_READY.findall(self.read_log()))

    @property
    def starts(self) -> int:
        return len(_READY.findall(self.read_log()))
