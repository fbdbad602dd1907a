"""A job from its plan to its spools: the same for every engine, which only says how files are
scanned.

Files are scanned in waves, so that progress is told, a cancelled job ends, and what grows beyond
all bounds is noticed on the way. A request for the last n events is looked for from the newest file
backwards, until it has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.archive import Archive
from broker.archive.leases import ReadingLease
from broker.archive.listed import ArchivedFile
from broker.dtd.catalogue import Catalogue
from broker.errors import ArchiveCorrupt, ArchiveUnavailable, ReplayCancelled, WireError
from broker.replay.engine.arranging import COPY_COLUMNS, Arrangement
from broker.replay.engine.bounding import Tally
from broker.replay.engine.bundling import bundle_order
from broker.replay.engine.contract import Limits, Progress, Report
from broker.replay.engine.dtds import dtd_texts
from broker.replay.engine.plan import Part, Plan, plan
from broker.replay.engine.scan import KEYS, Note
from broker.replay.engine.scanner import Context, Scanner
from broker.replay.engine.telling import Telling
from broker.replay.ordering import Integers
from broker.replay.request import BUNDLE, ReplayRequest
from broker.replay.spool import write_request

#: Rows of the first wave of a search for the last events, and how much larger each next one is.
_FIRST_ROWS: Final = 20_000
_GROWTH: Final = 4


@attrs.define(eq=False)
class Job:
    """Requests that are worked on together; for one `run`."""

    archive: Archive
    catalogue: Catalogue
    scanner: Scanner
    limits: Limits
    name: str
    requests: Sequence[ReplayRequest]
    folder: Path
    progress: Progress
    cancelled: Callable[[], bool]

    _found: list[pa.RecordBatch] = attrs.field(factory=list, init=False)
    _notes: dict[str, None] = attrs.field(factory=dict, init=False)
    _failed: dict[int, WireError] = attrs.field(factory=dict, init=False)
    _denied: Integers = attrs.field(init=False)
    _tally: Tally = attrs.field(init=False)
    _files: dict[int, Part] = attrs.field(factory=dict, init=False)
    _missing: list[Part] = attrs.field(factory=list, init=False)
    _lost: list[Part] = attrs.field(factory=list, init=False)
    _done: int = attrs.field(default=0, init=False)
    _of: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._denied = np.zeros(len(self.requests), dtype=np.int64)
        self._tally = Tally(len(self.requests), self.limits)

    def run(self) -> list[Report]:
        """See `Engine`."""
        with self.archive.reading() as lease:
            state = self.archive.state_with_unlisted()
            planned = plan(state, self.requests)
            self._lost += planned.lost
            self._look_through(planned, lease)
            if self._missing:
                # A compaction that did not know of this reader: what it wrote instead is new.
                planned = self._look_again(lease)
            arrangement = self._arrangement(planned)
            telling, looked_at = Telling(state), planned.looked_at()
            return [
                self._report(number, arrangement, telling, int(looked_at[number]))
                for number in range(len(self.requests))
            ]

    # ---------------------------------------------------------------- looking through files

    def _look_through(self, planned: Plan, lease: ReadingLease) -> None:
        texts, problems = dtd_texts(self.archive, self.catalogue, planned.types)
        self._notes.update(dict.fromkeys(problems))
        context = Context(
            self.name,
            self.archive.objects.source,
            self.requests,
            planned.origins,
            texts,
            planned.variants,
            self.limits,
            str(self.folder),
        )
        last = np.array([request.last > 0 for request in self.requests])
        forward = [*self._parts_for(planned.parts, np.flatnonzero(~last))]
        backward = [*self._parts_for(planned.parts, np.flatnonzero(last))]
        backward.sort(key=lambda part: part.file.arrivals[1], reverse=True)
        self._of += sum(part.file.rows for part in (*forward, *backward))
        for wave in waves(forward, self.scanner.wave_rows):
            self._scan(context, wave, lease)
        self._search(context, backward, planned, lease)

    def _parts_for(self, parts: Iterable[Part], requests: Integers) -> Iterator[Part]:
        """The parts for these requests, each under a number of its own."""
        for part in parts:
            wanted = part.requests[np.isin(part.requests, requests)]
            if len(wanted):
                number = len(self._files)
                self._files[number] = Part(number, part.file, wanted)
                yield self._files[number]

    def _search(
        self, context: Context, parts: list[Part], planned: Plan, lease: ReadingLease
    ) -> None:
        """From the newest file backwards, until everybody has the last events it wants."""
        rows = _FIRST_ROWS
        while parts:
            wave = next(iter(waves(parts, rows)))
            self._scan(context, wave, lease)
            rows *= _GROWTH
            left = parts[len(wave) :]
            parts = [*self._not_found_yet(left, planned)] if left else []
        self._done = self._of
        self.progress(self._done, self._of)

    def _not_found_yet(self, parts: Sequence[Part], planned: Plan) -> Iterator[Part]:
        arrangement = self._arrangement(planned)
        since = {
            number: arrangement.oldest_of_last(number)
            for number in np.unique(np.concatenate([part.requests for part in parts])).tolist()
        }
        for part in parts:
            open_ = [n for n in part.requests.tolist() if part.file.arrivals[1] >= (since[n] or 0)]
            if open_:
                yield attrs.evolve(part, requests=np.array(open_))

    def _look_again(self, lease: ReadingLease) -> Plan:
        missing, self._missing = self._missing, []
        state = self.archive.state_with_unlisted()
        planned = plan(state, self.requests)
        known = {part.file.path for part in self._files.values()}
        replaced = state.everything.removes
        for part in missing:
            if part.file.path not in replaced:
                # Nobody merged it, so it is damaged like one that was cut. The manifest that lists
                # it may be lost as well.
                self._lost.append(part)
                reason = f"{part.file.path} is listed and not there"
                self._notes[reason] = None
                self._set_aside(part.file, reason)
        new = [part for part in planned.parts if part.file.path not in known]
        # There may be origins that matchers do not know.
        self.name += "+"
        self._look_through(attrs.evolve(planned, parts=tuple(new)), lease)
        self._lost += self._missing
        return planned

    # ---------------------------------------------------------------- one wave

    def _scan(self, context: Context, wave: Sequence[Part], lease: ReadingLease) -> None:
        if self.cancelled():
            raise ReplayCancelled("nobody waits for this replay any more")
        lease.refresh()
        open_ = [part for part in map(self._without_failed, wave) if len(part.requests)]
        for item in self.scanner.scan(context, open_, self.cancelled):
            if isinstance(item, Note):
                self._heed(item)
            elif item.num_rows:
                self._found.append(item)
                wanted = item.column("requests")
                counts = np.diff(wanted.offsets.to_numpy())
                sizes = item.column("size").to_numpy()
                self._tally.add(wanted.flatten().to_numpy(), np.repeat(sizes, counts))
                self._tally.store(int(sizes.sum()))
                self._failed.update(self._tally.refused)
        self._done += sum(part.file.rows for part in wave)
        self.progress(min(self._done, self._of), self._of)

    def _without_failed(self, part: Part) -> Part:
        if not self._failed:
            return part
        kept = ~np.isin(part.requests, list(self._failed))
        return attrs.evolve(part, requests=part.requests[kept])

    def _heed(self, note: Note) -> None:
        part = self._files[note.part]
        for number, denied in note.denied:
            self._denied[number] += denied
        self._failed.update(note.failed)
        self._notes.update(dict.fromkeys(f"no DTD describes {each}" for each in note.undescribed))
        if note.unreadable:
            self._notes[f"{part.file.path}: {note.unreadable} events can not be read"] = None
        if note.missing:
            self._missing.append(part)
        elif note.corrupt:
            self._lost.append(part)
            self._notes[note.corrupt] = None
            self._set_aside(part.file, note.corrupt)

    def _set_aside(self, file: ArchivedFile, reason: str) -> None:
        try:
            self.archive.set_aside(file, reason)
        except (ArchiveUnavailable, ArchiveCorrupt) as error:
            self._notes[f"{file.path} could not be set aside: {error}"] = None

    # ---------------------------------------------------------------- what came of it

    def _arrangement(self, planned: Plan) -> Arrangement:
        found = pa.Table.from_batches(self._found, KEYS)
        arrangement = Arrangement(found, self.requests, planned.scope)
        arrangement.drop_had(self._copies(planned.copies))
        return arrangement

    def _copies(self, files: Iterable[ArchivedFile]) -> Iterator[pa.RecordBatch]:
        for file in files:
            try:
                yield from self.archive.read(file, COPY_COLUMNS, checked=True)
            except ArchiveCorrupt as error:
                # An event may come twice then, which its receiver can tell; none is lost.
                self._notes[f"copies were not looked for: {error}"] = None

    def _report(
        self, number: int, arrangement: Arrangement, telling: Telling, looked_at: int
    ) -> Report:
        request = self.requests[number]
        lost = [part.file for part in self._lost if number in part.requests]
        report = Report(
            looked_at=looked_at,
            denied=int(self._denied[number]),
            upto=telling.reach(request),
            holes=telling.holes(request, lost),
            notes=tuple(self._notes),
            error=self._failed.get(number),
        )
        if report.error is not None:
            return report
        got = arrangement.arrange(number)
        write_request(self.folder, number, got.parts, got.rows, got.sizes)
        if request.order == BUNDLE:
            order = bundle_order(self.folder, number)
            write_request(
                self.folder, number, *(c[order] for c in (got.parts, got.rows, got.sizes))
            )
        return attrs.evolve(
            report,
            events=len(got.rows),
            bytes=int(got.sizes.sum()),
            duplicates=got.duplicates,
            contradictions=got.contradictions,
        )


def waves(parts: Sequence[Part], rows: int) -> Iterator[list[Part]]:
    """The parts in groups of about so many rows."""
    wave: list[Part] = []
    total = 0
    for part in parts:
        wave.append(part)
        total += part.file.rows
        if total >= rows:
            yield wave
            wave, total = [], 0
    if wave:
        yield wave
