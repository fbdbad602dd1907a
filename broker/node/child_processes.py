"""Child processes of a node with an archive: the archiver, and the replay process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred, gatherResults

from broker.archiver.archiver_client import ArchiverClient
from broker.archiver.hold_report import HoldReport
from broker.archiver.maintenance_rules import MaintenanceRules
from broker.config import Settings
from broker.event.place import Mark
from broker.node.node import Node
from broker.recovery.archive_access import ArchiveAccess
from broker.replay.replayer_client import ReplayerClient, ReplayerSettings

#: Periods of the archiver after which logged events must be in the archive.
MAX_LAG_ROUNDS = 3
#: Seconds; lower bound of that time.
MIN_MAX_LAG = 15.0


class ChildProcesses:
    def __init__(self, settings: Settings, reactor: Any, uri: str) -> None:
        self.archiver = ArchiverClient(
            reactor,
            log_folder=settings.node.data / "log",
            uri=uri,
            every=settings.archive.every,
            maintenance=MaintenanceRules(
                settings.archive.compact,
                round(1000 * settings.archive.max_age),
                settings.archive.max_bytes,
                settings.archive.max_events,
            ),
            umask=settings.archive.umask,
        )
        self._hold_report = HoldReport()
        recovery_settings = settings.recovery
        self.replays = ReplayerClient(
            reactor,
            ReplayerSettings(
                *(
                    uri,
                    settings.node.data / "replays",
                    recovery_settings.engine,
                    recovery_settings.master,
                ),
                *(
                    recovery_settings.spool_bytes,
                    recovery_settings.request_bytes,
                    recovery_settings.idle,
                ),
            ),
        )
        self.access = ArchiveAccess(
            replays=self.replays,
            get_coverage=self.archiver.get_coverage,
            find_durable=self.archiver.find_durable,
            find_dtd=self.archiver.find_dtd,
            flush_soon=self.archiver.flush_soon,
            max_lag=max(MAX_LAG_ROUNDS * settings.archive.every, MIN_MAX_LAG),
            is_warm=lambda: self.replays.is_running,
            snapshot=self.snapshot,
        )

    def start(self, node: Node) -> None:
        """Start the archiver; the replay process starts on demand."""
        self.archiver.dtd_text = node.types.find_text
        log = node.event_log

        def release(reached: Mapping[str, Mark]) -> None:
            log.archive_hold.archived = reached.get(log.origin, (0, 0))
            log.archive_hold.archived_replicas = reached

        log.archive_hold.is_announced = False
        self.archiver.on_reached = release
        self.archiver.start()

    def update(self, node: Node) -> None:
        """Call it each second."""
        self.archiver.set_dead_origins(node.dead_origins())
        log = node.event_log
        is_known = bool(self.archiver.reached or self.archiver.problem)
        self._hold_report.log_changes(log.archive_hold, log.bounds.used_bytes, is_known=is_known)
        self.replays.request_status()

    def snapshot(self) -> dict[str, Any]:
        archiver, replays = self.archiver, self.replays
        return {
            "archiver": {
                "uri": archiver.uri,
                "runs": archiver.is_running,
                "reached": dict(archiver.reached),
                "problem": archiver.problem,
                "restarts": archiver.restarts,
                **archiver.counters,
            },
            "replays": {
                "runs": replays.is_running,
                "processes": replays.started_processes,
                "under_way": len(replays.replays),
                **(replays.status if replays.is_running else {}),
                "notices": list(replays.notices),
            },
        }

    def stop(self) -> Deferred[None]:
        """Stop after the archiver has archived the log."""
        both = gatherResults([self.archiver.stop(), self.replays.stop()], consumeErrors=True)
        return both.addCallback(lambda _: None)


def build_child_processes(settings: Settings, reactor: Any) -> ChildProcesses | None:
    uri = settings.archive.uri(settings.node.data)
    return ChildProcesses(settings, reactor, uri) if uri else None
