"""The processes beside a node: its archiver, and the one that replays from the archive."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from broker.config import Settings
from broker.node import Node
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.archiver.supervisor import ArchiverSupervisor

#: How often the archiver may be due until what was logged must be in the archive.
ROUNDS = 3


class ProcessesBeside:
    """Those of one node with an archive."""

    def __init__(self, settings: Settings, reactor: Any, uri: str) -> None:
        self.archiver = ArchiverSupervisor(
            reactor,
            log_folder=settings.node.data / "log",
            uri=uri,
            every=settings.archive.every,
        )
        self.access: ArchiveAccess | None = None

    def start(self, node: Node) -> None:
        """The node runs: start what serves it."""
        self.archiver.dtd_text = node.dtd_text
        self.archiver.start()

    def look_at(self, node: Node) -> None:
        """Tell them what has changed: to be called each second."""
        self.archiver.set_dead(node.dead_origins())

    def stop(self) -> Deferred[None]:
        """End them; what the log has is archived first."""
        return self.archiver.stop()


def processes_beside(settings: Settings, reactor: Any) -> ProcessesBeside | None:
    """What a node with these settings has beside it; None without an archive."""
    uri = settings.archive.uri(settings.node.data)
    return ProcessesBeside(settings, reactor, uri) if uri else None
