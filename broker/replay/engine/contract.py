"""The interface of engines, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import attrs
import msgspec

from broker.errors import WireError
from broker.event.place import Mark
from broker.replay.request import ReplayRequest
from broker.wire.codec import Count, Schema, WireErrorFields, WireMark, WirePosition

#: Receives scanned and total rows.
ReportProgress: TypeAlias = Callable[[int, int], object]
#: (origin, after, upto): events in (after, upto] may be missing.
MissingRange: TypeAlias = tuple[str, Mark, Mark]


class _WireReport(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    events: Count
    bytes: Count
    scanned_rows: Count
    denied: Count
    duplicates: Count
    contradictions: Count
    upto: WirePosition
    missing_ranges: tuple[tuple[str, WireMark, WireMark], ...]
    notes: tuple[str, ...]
    error: WireErrorFields | None


_REPORT: Final = Schema[_WireReport](_WireReport, "replay report")


@attrs.frozen
class Report:
    events: int = 0
    bytes: int = 0
    """Approximate, of documents and headers."""
    scanned_rows: int = 0
    """In the files scanned for it."""
    denied: int = 0
    """Rows above its clearance. Repeated places count twice."""
    duplicates: int = 0
    """Omitted copies at another place that the client has or gets.

    Repeated places do not count.
    """
    contradictions: int = 0
    """Between the orders of origins and publishers."""
    upto: Mapping[str, Mark] = attrs.field(factory=dict)
    """End of the archive, by origin. `missing_ranges` are before it."""
    missing_ranges: tuple[MissingRange, ...] = ()
    """Places in damaged or missing files, or covered by no manifest."""
    notes: tuple[str, ...] = ()
    """For the operator, such as types without a DTD."""
    error: WireError | None = None
    """Reason why there is no spool."""

    def to_wire(self) -> list[Any]:
        return [
            *(self.events, self.bytes, self.scanned_rows),
            *(self.denied, self.duplicates, self.contradictions),
            [[origin, *mark] for origin, mark in sorted(self.upto.items())],
            [[origin, after, upto] for origin, after, upto in self.missing_ranges],
            list(self.notes),
            self.error,
        ]

    @classmethod
    def from_wire(cls, value: Any) -> Report:
        """Raises `ProtocolError`."""
        wire = _REPORT.convert(value)
        upto = {origin: (epoch, offset) for origin, epoch, offset in wire.upto}
        return cls(**msgspec.structs.asdict(wire) | {"upto": upto})


@attrs.frozen
class JobLimits:
    """Requests beyond these limits fail with `Overloaded` (see `quota.py`)."""

    request_bytes: int = 4 << 30
    deliveries: int = 50_000_000
    """Events of all requests; a shared event counts for each."""
    disk_bytes: int = 16 << 30
    """Each event counts once."""


DEFAULT_LIMITS: Final = JobLimits()


class Engine(Protocol):
    """Runs jobs, one at a time. All methods block."""

    @property
    def name(self) -> str:
        """Name in settings and notices."""

    def warm_up(self) -> None:
        """Start slow parts in advance. Raises `EngineUnavailable`."""

    def run(
        self,
        requests: Sequence[ReplayRequest],
        folder: Path,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        """Return a report for each request, in order; events go to a spool in `folder`.

        Raises `ReplayCancelled` soon after `cancelled` returns True, `ArchiveUnavailable`,
        `Overloaded` if the disk is full, and `EngineUnavailable`. The job can then be repeated.
        """

    def close(self) -> None:
        """Stop the engine."""
