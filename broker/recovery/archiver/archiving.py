"""From a node's log into the archive: what is new of its own origin, and of dead ones kept here.

Where it goes on is what the archive says that it covers, so the end of the process at any moment
loses nothing and writes nothing twice that a reader would see twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
import msgpack

from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.store.archive.archive import Archive
from broker.store.archive.state import ArchiveState
from broker.store.archive.writer import ArchiveWriter
from broker.store.kept import KeptSpan
from broker.store.records import LoggedEvent

#: A flush: so many events, of about so many bytes. What is more follows in the next one at once.
FLUSH_EVENTS = 50_000
FLUSH_BYTES = 32 << 20
#: Of the fields of a record, where type and version stand.
_TYPE, _VERSION = 5, 6

#: The texts of DTDs; those that nobody has are left out.
AskDtds: TypeAlias = Callable[[Sequence[DtdReference]], Mapping[DtdReference, bytes]]


class ReadableLog(Protocol):
    """A log as `broker.store.reading_along.LogAlong` shows it."""

    @property
    def origin(self) -> str: ...
    def extent(self) -> tuple[Mark, Mark]: ...
    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[LoggedEvent]: ...
    def spans(self) -> Mapping[str, KeptSpan]: ...
    def read_kept(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]: ...
    def durables(self) -> dict[tuple[str, str], bytes]: ...
    def change(self) -> int: ...


@attrs.define
class Figures:
    """Since the process began."""

    events: int = 0
    files: int = 0
    bytes: int = 0
    flushes: int = 0
    lost: int = 0
    """Places that retention took from the log before they were in the archive."""


class Archiving:
    """One node's. All methods block; `ArchiveUnavailable` and `LogUnavailable` pass through."""

    def __init__(
        self,
        log: ReadableLog,
        archive: Archive,
        ask_dtds: AskDtds,
        wall_clock: Callable[[], int],
    ) -> None:
        self._log = log
        self._archive = archive
        self._writer = ArchiveWriter(archive, log.origin, wall_clock)
        self._ask_dtds = ask_dtds
        self._known: set[DtdReference] = set()
        self._stored: dict[tuple[str, str], bytes] | None = None
        self._change = -1
        self._looked_for_texts = False
        self.figures = Figures()
        self.reached: dict[str, Mark] = {}
        """By origin, up to where the archive has it."""

    def flush(self, dead: Iterable[str] = ()) -> bool:
        """Archive what is new, of the `dead` origins too; whether there is more at once."""
        more = self._flush_own()
        for origin in dead:
            more = self._flush_kept(origin) or more
        self._put_durables()
        self._put_missing_texts()
        return more

    def _flush_own(self) -> bool:
        origin = self._log.origin
        since, durable = self._log.extent()
        before = self.reached.get(origin)
        if before is not None and before[1] < since[1]:
            # What is gone from the log never comes; that it is gone is no reason to stop.
            self.figures.lost += since[1] - before[1]
        after = self._go_on(origin, since)
        if durable[1] <= after[1]:
            return False
        events = self._log.read(after, FLUSH_EVENTS, FLUSH_BYTES)
        upto = events[-1].mark if events else durable
        self._write(origin, after, upto, events)
        return upto[1] < durable[1]

    def _flush_kept(self, origin: str) -> bool:
        span = self._log.spans().get(origin)
        if span is None:
            return False
        after = self._go_on(origin, span.after)
        if span.upto[1] <= after[1]:
            return False
        events = self._log.read_kept(origin, after, FLUSH_EVENTS, FLUSH_BYTES)
        upto = events[-1].mark if events else span.upto
        self._write(origin, after, upto, events)
        return upto[1] < span.upto[1]

    def _go_on(self, origin: str, since: Mark) -> Mark:
        """Up to where the archive has all that is here, which begins behind `since`."""
        begins = max(since, self.reached.get(origin, since))
        self.reached[origin] = self._archive.state().upto(origin, begins)
        return self.reached[origin]

    def _write(self, origin: str, after: Mark, upto: Mark, events: Sequence[LoggedEvent]) -> None:
        dtds = self._texts(events)
        written = self._writer.write([(origin, after, upto)], events, dtds)
        self._known |= dtds.keys()
        self.reached[origin] = upto
        figures = self.figures
        figures.events += written.rows
        figures.files += len(written.files)
        figures.bytes += written.bytes
        figures.flushes += 1

    def _texts(self, events: Sequence[LoggedEvent]) -> Mapping[DtdReference, bytes]:
        named = set()
        for event in events:
            fields = msgpack.unpackb(event.record)
            named.add((fields[_TYPE], fields[_VERSION]))
        new = sorted({DtdReference(*each) for each in named} - self._known)
        return self._ask_dtds(new) if new else {}

    def _put_missing_texts(self) -> None:
        """What was archived when its DTD could not be had: once after the start."""
        if self._looked_for_texts:
            return
        self._looked_for_texts = True
        state = self._archive.state()
        named = {DtdReference(*each) for file in state.files.values() for each in file.types}
        missing = sorted(named - state.dtds.keys())
        texts = self._ask_dtds(missing) if missing else {}
        if texts:
            self._writer.write([], [], texts)

    def _put_durables(self) -> None:
        change = self._log.change()
        if change == self._change:
            return
        before = self._stored_before()
        now = self._log.durables()
        changes: list[tuple[str, str, bytes | None]] = [
            (*key, stored) for key, stored in now.items() if before.get(key) != stored
        ]
        changes += [(*key, None) for key in before.keys() - now.keys()]
        self._writer.put_durables(changes)
        self._stored, self._change = now, change

    def _stored_before(self) -> dict[tuple[str, str], bytes]:
        if self._stored is None:
            own = self._log.origin
            self._stored = {
                key: stored
                for key, (writer, stored, _) in self._archive.durables().items()
                if writer == own
            }
        return self._stored


def covered(state: ArchiveState, after: Mapping[str, Mark]) -> dict[str, list[tuple[Mark, Mark]]]:
    """What an archive has of these origins behind these marks."""
    return {
        origin: [each for each in state.covered.get(origin, ()) if each[1] > mark]
        for origin, mark in after.items()
    }
