"""Settings of the archive, and of recovery from it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from broker.config import value_kind
from broker.config.setting import setting
from broker.private_files import umask_for

MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40
PIB: Final = 2**50
HOUR: Final = 3600.0
CENTURY: Final = 36_500 * 24 * HOUR


@attrs.frozen
class ArchiveSettings:
    """Permanent archive of all events, as Parquet files that several nodes may share."""

    enabled: bool = setting(
        value_kind.BOOLEAN, True, "Whether the node's events are archived in addition to its log."
    )
    location: str = setting(
        value_kind.OPTIONAL_LOCATION,
        "",
        "Location of the archive: a folder, or a URI such as s3://bucket/events; empty: the "
        "folder archive in node.data. Nodes that recover each other's events share one "
        "location.",
    )
    mode: str = setting(
        value_kind.choice("0600", "0640", "0644", "0660", "0664"),
        "0600",
        "Mode of the archive's new files in a folder; folders fit to it. Another mode than 0600 "
        "lets other users read the archive, or nodes of several users share it.",
    )
    every: float = setting(
        value_kind.duration(0.1, HOUR), 5.0, "Interval between writes of new events to the archive."
    )
    hold_bytes: int = setting(
        value_kind.size(0, PIB),
        0,
        "Size of the log on disk up to which the node's own events stay in it until they are "
        "archived, beyond log.max_bytes and log.max_age; 0: twice log.max_bytes. Replicas of "
        "other nodes' events stay up to half of it.",
    )
    compact: bool = setting(
        value_kind.BOOLEAN,
        True,
        "Whether small files are merged into large ones. Of the nodes that share an archive, "
        "one at a time maintains it, by its own settings: they should be equal at all nodes.",
    )
    max_age: float = setting(
        value_kind.duration(0.0, CENTURY),
        0.0,
        "Age at which hours of events are deleted, by their newest event, unless a durable "
        "subscription needs them (for 90 days at most); 0: never.",
    )
    max_bytes: int = setting(
        value_kind.size(0, PIB),
        0,
        "Size of the whole archive beyond which the oldest hours are deleted, with the same "
        "exception; 0: no limit.",
    )
    max_events: int = setting(
        value_kind.count(0, 10**15),
        0,
        "Number of archived events beyond which the oldest hours are deleted, with the same "
        "exception; 0: no limit.",
    )

    @property
    def umask(self) -> int:
        """Umask of the process that writes the archive."""
        return umask_for(int(self.mode, 8))

    def uri(self, data: Path) -> str:
        """Return the archive's location; empty without one."""
        if not self.enabled:
            return ""
        return self.location or str((data / "archive").absolute())


@attrs.frozen
class RecoverySettings:
    """Recovery of missed events from the archive, by a child process of the node."""

    engine: str = setting(
        value_kind.choice("auto", "spark", "local"),
        "auto",
        "Engine that searches the archive: Spark, or Python alone; auto uses Spark if Java 17 "
        "or newer and pyspark are installed.",
    )
    master: str = setting(
        value_kind.SPARK_MASTER,
        "local[*]",
        "Spark's master: local[*], spark://host:port, yarn or k8s://address.",
    )
    spool_bytes: int = setting(
        value_kind.size(MIB, TIB),
        8 * GIB,
        "Bytes of found events that wait on disk for clients, of all requests together. Those of "
        "one account have a quarter, apart from a single request.",
    )
    request_bytes: int = setting(
        value_kind.size(MIB, TIB),
        4 * GIB,
        "Bytes of found events of one request; a request that finds more is rejected.",
    )
    idle: float = setting(
        value_kind.duration(1.0, 24 * HOUR),
        600.0,
        "Time for which the process keeps running without requests.",
    )
    gap_timeout: float = setting(
        value_kind.duration(0.0, HOUR),
        60.0,
        "Time for which a recovery waits for unreachable nodes if no other source has their "
        "events; then the events are reported as a gap, and the rest continues.",
        previous="patience",
    )
