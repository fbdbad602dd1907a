"""From a node's log into the archive: what is new of its own origin, and of dead ones kept here.

Where it goes on is what the archive says that it covers, so the end of the process at any moment
loses nothing and writes nothing twice that a reader would see twice.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.archive import Archive
from broker.archive.columns import ChunkColumns, chunks_to_batch
from broker.archive.intervals import Interval, without
from broker.archive.listed import TextUse
from broker.archive.lost_texts import LostTexts
from broker.archive.state import ArchiveState
from broker.archive.table import events_to_batch
from broker.archive.writer import ArchiveWriter, Written
from broker.dtd.reference import DtdReference
from broker.event.place import Mark
from broker.log.damage import DamageFound
from broker.log.histories import Chain
from broker.log.kept import KeptSpan
from broker.log.records import LoggedEvent

#: A flush: so many events, of about so many bytes. What is more follows in the next one at once.
FLUSH_EVENTS = 50_000
FLUSH_BYTES = 32 << 20
#: Ms until a DTD that nobody had is asked for again.
ASK_AGAIN = 60_000

#: The texts of DTDs that judge the events of an origin; those that nobody has are left out.
AskDtds: TypeAlias = Callable[[Sequence[DtdReference], str], Mapping[DtdReference, bytes]]
#: By origin and type the content hashes of texts.
Hashes: TypeAlias = dict[tuple[str, DtdReference], str]


#: Events behind a mark: at most so many, of about so many bytes.
Read: TypeAlias = Callable[[Mark, int, int], pa.RecordBatch | None]


class ReadableLog(Protocol):
    """A log as `broker.log.reading_along.LogAlong` shows it."""

    @property
    def origin(self) -> str: ...
    def extent(self) -> tuple[Mark, Mark]: ...
    def chain(self) -> Chain: ...
    def read(self, after: Mark, max_events: int, max_bytes: int) -> list[ChunkColumns]: ...
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
    damaged: int = 0
    """Times that a flush passed over damage in the log."""


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
        self._wall_clock = wall_clock
        self._known: Hashes = {}
        self._lost_texts = LostTexts(archive)
        self._missing: set[tuple[str, DtdReference]] | None = None
        self._compared: ArchiveState | None = None
        self._asked = 0
        self._stored: dict[tuple[str, str], bytes] | None = None
        self._change = -1
        self.figures = Figures()
        self.reached: dict[str, Mark] = {}
        """By origin, up to where the archive has it."""

    def flush(self, dead: Collection[str] = ()) -> bool:
        """Archive what is new, of the `dead` origins too; whether there is more at once."""
        more = self._flush_own()
        self._note_others(dead)
        for origin in dead:
            more = self._flush_kept(origin) or more
        self._put_durables()
        self._put_missing_texts()
        self._put_uses()
        self._writer.put_witness()
        return more

    def _note_others(self, dead: Collection[str]) -> None:
        """Note up to where others have archived what is kept here: until then it stays."""
        state = self._archive.state()
        for origin, span in self._log.spans().items():
            if origin not in dead:
                since = max(span.after, state.forgotten(origin))
                self.reached[origin] = state.upto(origin, since)

    def _flush_own(self) -> bool:
        log = self._log
        since, durable = log.extent()

        def read(after: Mark, max_events: int, max_bytes: int) -> pa.RecordBatch | None:
            chunks = log.read(after, max_events, max_bytes)
            return chunks_to_batch(chunks) if chunks else None

        return self._flush_span(log.origin, since, durable, read, lambda: log.extent()[0])

    def _flush_kept(self, origin: str) -> bool:
        log = self._log
        span = log.spans().get(origin)
        if span is None:
            return False

        def begins() -> Mark:
            now = log.spans().get(origin)
            return span.upto if now is None else now.after

        def read(after: Mark, max_events: int, max_bytes: int) -> pa.RecordBatch | None:
            events = log.read_kept(origin, after, max_events, max_bytes)
            return events_to_batch(events) if events is not None else None

        return self._flush_span(origin, span.after, span.upto, read, begins)

    def _flush_span(
        self, origin: str, since: Mark, durable: Mark, read: Read, begins: Callable[[], Mark]
    ) -> bool:
        """Archive what the archive lacks of (since, durable]; whether there is more of it."""
        after, end = self._go_on(origin, since)
        if durable <= after:
            return False
        try:
            events = read(after, FLUSH_EVENTS, FLUSH_BYTES)
        except DamageFound as found:
            # It stays a hole of the archive, which is filled when the log is repaired.
            self.figures.damaged += 1
            upto = max(found.damage.upto, since)
            lost = self.figures.lost
            more = upto > since and self._flush_span(origin, upto, durable, read, begins)
            # It is no loss to retention.
            self.figures.lost = lost
            return more
        upto = _mark(events, -1) if events is not None else durable
        if end is not None and end < upto:
            events, upto = _up_to(events, end), end
        # Retention may have taken something between the two looks, and what it took is not covered.
        covered = max(after, begins())
        if covered > after:
            self.figures.lost += (
                _mark(events, 0)[1] - 1 if events is not None else upto[1]
            ) - after[1]
        covered = min(covered, upto)
        if events is None and not without([(covered, upto)], self._empty(origin, covered, None)):
            self.reached[origin] = upto
            return upto < durable and self._flush_span(origin, upto, durable, read, begins)
        self._write(origin, covered, upto, events)
        return upto < durable

    def _go_on(self, origin: str, since: Mark) -> tuple[Mark, Mark | None]:
        """Up to where the archive has all that is here, which begins behind `since`; and behind
        which mark it has something again, where it has a hole: a damaged file, say."""
        state = self._archive.state()
        if self._writer.ledger.mend(state):
            state = self._archive.state()
        before = self.reached.get(origin)
        # What the archive has let go as too old is not to come back from a log that has it still.
        after = state.upto(origin, max(since, state.forgotten(origin)))
        if origin == self._log.origin:
            # The archive may have more of another branch: that stays apart from this one.
            chain = self._log.chain()
            while (goes_on := chain.goes_on(after)) != after:
                after = state.upto(origin, goes_on)
        self.reached[origin] = after
        if before is not None and before < since:
            # What is gone from the log never comes; that it is gone is no reason to stop.
            self.figures.lost += max(0, since[1] - state.upto(origin, before)[1])
        return after, state.next_covered(origin, after)

    def _write(self, origin: str, after: Mark, upto: Mark, events: pa.RecordBatch | None) -> None:
        dtds = self._texts(origin, events) if events is not None else {}
        # A loss is no place that was archived: whoever recovers across it is told a gap.
        empty = self._empty(origin, after, events)
        covers = [(origin, *each) for each in without([(after, upto)], empty)]
        written = self._write_with(origin, covers, [] if events is None else events, dtds)
        self.reached[origin] = upto
        figures = self.figures
        figures.events += written.rows
        figures.files += len(written.files)
        figures.bytes += written.bytes
        figures.flushes += 1

    def _empty(self, origin: str, after: Mark, events: pa.RecordBatch | None) -> list[Interval]:
        """Places behind `after` that stand for losses of the origin.

        Of another origin they are where offsets are left out.
        """
        if origin == self._log.origin:
            return list(self._log.chain().empty)
        if events is None:
            return []
        epochs, offsets = (events.column(name).to_numpy() for name in ("epoch", "offset"))
        before = np.concatenate(([after[1]], offsets[:-1]))
        found: list[Interval] = []
        for row in np.flatnonzero(offsets > before + 1).tolist():
            first = _mark(events, row - 1) if row else after
            found.append((first, (int(epochs[row]), int(offsets[row]) - 1)))
        return found

    def _texts(self, origin: str, events: pa.RecordBatch) -> Mapping[DtdReference, bytes]:
        kinds = pa.table(events.select(["type", "version"])).group_by(["type", "version"])
        named = {DtdReference(*each.values()) for each in kinds.aggregate([]).to_pylist()}
        new = sorted(each for each in named if (origin, each) not in self._known)
        texts = self._ask_dtds(new, origin) if new else {}
        if self._missing is not None:
            self._missing |= {(origin, each) for each in new if each not in texts}
        return texts

    def _write_with(
        self,
        origin: str,
        covers: Sequence[tuple[str, Mark, Mark]],
        events: pa.RecordBatch | Sequence[LoggedEvent],
        dtds: Mapping[DtdReference, bytes],
    ) -> Written:
        """Write events of an origin, or none, with the texts that judge them."""
        hashes = {(origin, r): hashlib.sha256(text).hexdigest() for r, text in dtds.items()}
        uses = self._uses(hashes, self._archive.state()) if hashes else set()
        written = self._writer.write(covers, events, dtds, uses)
        self._known |= hashes
        return written

    def _uses(self, hashes: Hashes, state: ArchiveState) -> set[TextUse]:
        """Texts that do not count under their names, and whose users the archive does not know."""
        found = set()
        for (origin, reference), content_hash in hashes.items():
            counts = state.dtds.get(reference)
            if counts is not None and counts.sha256 != content_hash:
                own = DtdReference(reference.type, reference.version, content_hash)
                found.add(TextUse(origin, own))
        return found - state.everything.uses

    def _put_uses(self) -> None:
        """Another node may have archived its text of a name at the same moment: then one counts."""
        state = self._archive.state() if self._known else None
        if state is not None and state is not self._compared:
            self._compared = state
            if uses := self._uses(self._known, state):
                self._writer.write([], [], {}, uses)

    def _put_missing_texts(self) -> None:
        """Archive DTDs that could not be had with their events, and those whose objects are lost,
        by whomever they were archived."""
        now = self._wall_clock()
        if self._missing is None:
            state = self._archive.state()
            self._missing = {
                (origin, reference)
                for file in state.files.values()
                for reference in itertools.starmap(DtdReference, file.types)
                if reference not in state.dtds
                for origin in file.spans
            }
        elif abs(now - self._asked) < ASK_AGAIN:
            return
        self._asked = now
        self._missing -= self._known.keys()
        for origin, missing in itertools.groupby(sorted(self._missing), lambda each: each[0]):
            texts = self._ask_dtds([reference for _, reference in missing], origin)
            if texts:
                self._write_with(origin, [], [], texts)
        self._missing -= self._known.keys()
        self._restore_texts()

    def _restore_texts(self) -> None:
        lost = self._lost_texts.find()
        uses = self._archive.state().everything.uses if lost else ()
        for text in lost:
            users = {use.origin for use in uses if use.text.variant == text.sha256}
            for origin in (self._log.origin, *sorted(users)):
                self._writer.restore_texts([text], self._ask_dtds([text.reference], origin))

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
            # Its own word, though another's may be newer: to say it again would make it the newest.
            self._stored = dict(self._archive.durables_of(self._log.origin))
        return self._stored


def _up_to(events: pa.RecordBatch | None, end: Mark) -> pa.RecordBatch | None:
    """Those up to a mark."""
    if events is None:
        return None
    epoch, offset = (events.column(name).to_numpy() for name in ("epoch", "offset"))
    count = int(np.count_nonzero((epoch < end[0]) | ((epoch == end[0]) & (offset <= end[1]))))
    return events.slice(0, count) if count else None


def _mark(events: pa.RecordBatch, row: int) -> Mark:
    return events.column("epoch")[row].as_py(), events.column("offset")[row].as_py()
