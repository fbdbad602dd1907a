"""What an engine does: requests go in, spools of events and a report each come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import attrs

from broker.errors import ProtocolError, WireError
from broker.event.place import Mark
from broker.replay.request import ReplayRequest
from broker.wire import fields

#: Told while a job runs: rows looked at, of so many.
ReportProgress: TypeAlias = Callable[[int, int], object]
#: (origin, after, upto): events in (after, upto] may be missing.
MissingRange: TypeAlias = tuple[str, Mark, Mark]


@attrs.frozen
class Report:
    """What came of one request."""

    events: int = 0
    """In its spool."""
    bytes: int = 0
    """Of their documents and headers, about."""
    scanned_rows: int = 0
    """Rows of the files that may have had some for it."""
    denied: int = 0
    """Rows that it would have got with a higher clearance; a place that is there twice is two."""
    duplicates: int = 0
    """Copies that were left out: events that stand at another place too, where the client got them
    or gets them; of a place that is there twice nothing is told."""
    contradictions: int = 0
    """How often no order kept both each origin's and each publisher's."""
    upto: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin up to where the archive has something; `holes` are missing before that."""
    missing_ranges: tuple[MissingRange, ...] = ()
    """Lost to files that are damaged or missing, or covered by no manifest."""
    notes: tuple[str, ...] = ()
    """For people: types without a DTD, and the like."""
    error: WireError | None = None
    """Why there is no spool."""

    def to_wire(self) -> list[Any]:
        """A list that msgpack carries."""
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
        """The report that `to_wire` wrote; `ProtocolError` if it is none."""
        try:
            events, size, looked_at, denied, duplicates, contradictions, *rest = value
            upto, holes, notes, error = rest
            return cls(
                fields.count(events),
                fields.count(size),
                fields.count(looked_at),
                fields.count(denied),
                fields.count(duplicates),
                fields.count(contradictions),
                {fields.text(o): fields.mark((epoch, offset)) for o, epoch, offset in upto},
                tuple((fields.text(o), fields.mark(a), fields.mark(u)) for o, a, u in holes),
                fields.text_list(notes),
                None if error is None else fields.wire_error(error),
            )
        except (TypeError, ValueError) as problem:
            raise ProtocolError(f"this is no report of a replay: {problem}") from None


@attrs.frozen
class JobLimits:
    """Bounds of what one job may bring; what is beyond fails with `Overloaded` (`bounding.py`)."""

    request_bytes: int = 4 << 30
    """Of the events of one request."""
    deliveries: int = 50_000_000
    """Events of all requests together, each counted as often as it is delivered."""
    disk_bytes: int = 16 << 30
    """Of the events in a job's folder, where each is once."""


#: What one job may bring where nothing else is set.
DEFAULT_LIMITS: Final = JobLimits()


class Engine(Protocol):
    """Runs jobs, one at a time; blocks. `close` ends what it keeps warm."""

    @property
    def name(self) -> str:
        """As it is called in settings and notices."""

    def warm_up(self) -> None:
        """Have at hand what takes long to get; raises `EngineUnavailable`."""

    def run(
        self,
        requests: Sequence[ReplayRequest],
        folder: Path,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        """A report for each request, in order; its events are in `folder` (see `spool.py`).

        Raises `ReplayCancelled` soon after `cancelled` says so, `ArchiveUnavailable`, `Overloaded`
        when the disk of `folder` is full, and `EngineUnavailable` when the engine itself broke and
        the same may be tried again.
        """

    def close(self) -> None:
        """Nothing more will be run."""
