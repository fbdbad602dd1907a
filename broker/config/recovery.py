"""The settings of the archive, and of how what clients missed is found in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from broker.config import kinds
from broker.config.setting import setting

MIB: Final = 2**20
GIB: Final = 2**30
TIB: Final = 2**40
PIB: Final = 2**50
HOUR: Final = 3600.0
CENTURY: Final = 36_500 * 24 * HOUR


@attrs.frozen
class ArchiveSettings:
    """All events for good, as Parquet files that several nodes may write to."""

    enabled: bool = setting(
        kinds.BOOLEAN, True, "Whether the node's events go into an archive, beside its log."
    )
    location: str = setting(
        kinds.OPTIONAL_LOCATION,
        "",
        "Where it is: a folder, or a URI such as s3://bucket/events; empty: the folder archive in "
        "node.data. Nodes that are to find each other's events in it share one.",
    )
    every: float = setting(kinds.duration(0.1, HOUR), 5.0, "How often what is new goes into it.")
    hold_bytes: int = setting(
        kinds.size(0, PIB),
        0,
        "Size of the log on disk up to which the node's own events stay in it until the archive "
        "has them, beyond log.max_bytes and log.max_age; 0: twice log.max_bytes. Copies for other "
        "nodes stay up to half of it.",
    )
    compact: bool = setting(
        kinds.BOOLEAN,
        True,
        "Whether its small files are merged into large ones. Of the nodes that share an archive "
        "one at a time cares for it, each by its own settings: they should be the same.",
    )
    max_age: float = setting(
        kinds.duration(0.0, CENTURY),
        0.0,
        "Hours whose newest event is older go, unless a durable subscription needs them (for 90 "
        "days at most); 0: none goes.",
    )
    max_bytes: int = setting(
        kinds.size(0, PIB),
        0,
        "The oldest hours go while there is more than that, of all nodes together, with the same "
        "exception; 0: none goes.",
    )
    max_events: int = setting(
        kinds.count(0, 10**15), 0, "The same for the number of events; 0: none goes."
    )

    def uri(self, data: Path) -> str:
        """Where it is, for a node with this folder of data; empty where there is none."""
        if not self.enabled:
            return ""
        return self.location or str((data / "archive").absolute())


@attrs.frozen
class RecoverySettings:
    """How what clients missed is found in the archive, by a process beside the node."""

    engine: str = setting(
        kinds.choice("auto", "spark", "local"),
        "auto",
        "What searches the archive: Spark, or Python alone; auto takes Spark where Java 17 "
        "or newer and pyspark are installed.",
    )
    master: str = setting(
        kinds.SPARK_MASTER,
        "local[*]",
        "Spark's master: local[*], spark://host:port, yarn or k8s://address.",
    )
    spool_bytes: int = setting(
        kinds.size(MIB, TIB),
        8 * GIB,
        "What was found and waits on disk for its clients, of all requests together.",
    )
    request_bytes: int = setting(
        kinds.size(MIB, TIB), 4 * GIB, "The same of one request; one that finds more is refused."
    )
    idle: float = setting(
        kinds.duration(1.0, 24 * HOUR),
        600.0,
        "How long the process stays, warm, when nobody asks for anything.",
    )
    patience: float = setting(
        kinds.duration(0.0, HOUR),
        60.0,
        "How long a recovery waits for nodes that can not be reached, if nobody else has what they "
        "may have; then that is told as a gap, and the rest goes on.",
    )
