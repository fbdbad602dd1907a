"""One job, from its plan to its spools.

Files are scanned in waves. Between them the job reports progress, checks limits, and can be
cancelled. A request for the last n events scans backwards until it has enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.archive import Archive
from broker.archive.manifest_entry import ArchivedFile
from broker.archive.reader_lease import ReaderLease
from broker.dtd.catalogue import Catalogue
from broker.errors import ArchiveCorrupt, ArchiveUnavailable, ReplayCancelled, WireError
from broker.replay.engine.archive_coverage import ArchiveCoverage
from broker.replay.engine.bundle_order import order_bundles
from broker.replay.engine.contract import JobLimits, Report, ReportProgress
from broker.replay.engine.job_dtds import read_dtd_texts
from broker.replay.engine.job_result import COPY_COLUMNS, JobResult
from broker.replay.engine.part_scan import KEY_SCHEMA, PartSummary
from broker.replay.engine.plan import Part, Plan, make_plan
from broker.replay.engine.quota import JobQuota
from broker.replay.engine.scanner import JobContext, Scanner
from broker.replay.ordering import Integers
from broker.replay.request import BUNDLE, ReplayRequest
from broker.replay.spool import write_request_order

#: Rows of the first wave of a search for the last events, and the growth per wave.
_FIRST_ROWS: Final = 20_000
_GROWTH: Final = 4


@attrs.define(eq=False)
class Job:
    archive: Archive
    catalogue: Catalogue
    scanner: Scanner
    limits: JobLimits
    name: str
    requests: Sequence[ReplayRequest]
    folder: Path
    progress: ReportProgress
    cancelled: Callable[[], bool]

    _found: list[pa.RecordBatch] = attrs.field(factory=list, init=False)
    _notes: dict[str, None] = attrs.field(factory=dict, init=False)
    _failed: dict[int, WireError] = attrs.field(factory=dict, init=False)
    _denied: Integers = attrs.field(init=False)
    _quota: JobQuota = attrs.field(init=False)
    _parts: dict[int, Part] = attrs.field(factory=dict, init=False)
    _missing_parts: list[Part] = attrs.field(factory=list, init=False)
    _damaged_parts: list[Part] = attrs.field(factory=list, init=False)
    _scanned_rows: int = attrs.field(default=0, init=False)
    _total_rows: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._denied = np.zeros(len(self.requests), dtype=np.int64)
        self._quota = JobQuota(len(self.requests), self.limits)

    def run(self) -> list[Report]:
        with self.archive.open_reader_lease() as lease:
            state = self.archive.state_with_unlisted()
            planned = make_plan(state, self.requests)
            self._damaged_parts += planned.damaged
            self._scan_plan(planned, lease)
            if self._missing_parts:
                # A compaction ignored this lease. Its new files have the events.
                planned = self._scan_replacements(lease)
            result = self._build_result(planned)
            coverage, looked_at = ArchiveCoverage(state), planned.rows_per_request()
            return [
                self._build_report(number, result, coverage, int(looked_at[number]))
                for number in range(len(self.requests))
            ]

    # ---------------------------------------------------------------- scanning files

    def _scan_plan(self, planned: Plan, lease: ReaderLease) -> None:
        texts, problems = read_dtd_texts(self.archive, self.catalogue, planned.types)
        self._notes.update(dict.fromkeys(problems))
        context = JobContext(
            self.name,
            self.archive.objects.access_uri,
            self.requests,
            planned.origins,
            texts,
            planned.variants,
            self.limits,
            str(self.folder),
        )
        last = np.array([request.last > 0 for request in self.requests])
        forward = [*self._number_parts(planned.parts, np.flatnonzero(~last))]
        backward = [*self._number_parts(planned.parts, np.flatnonzero(last))]
        backward.sort(key=lambda part: part.file.arrivals[1], reverse=True)
        self._total_rows += sum(part.file.rows for part in (*forward, *backward))
        for wave in group_into_waves(forward, self.scanner.wave_rows):
            self._scan_wave(context, wave, lease)
        self._scan_for_last_events(context, backward, planned, lease)

    def _number_parts(self, parts: Iterable[Part], requests: Integers) -> Iterator[Part]:
        for part in parts:
            requested = part.requests[np.isin(part.requests, requests)]
            if len(requested):
                number = len(self._parts)
                self._parts[number] = Part(number, part.file, requested)
                yield self._parts[number]

    def _scan_for_last_events(
        self, context: JobContext, parts: list[Part], planned: Plan, lease: ReaderLease
    ) -> None:
        rows = _FIRST_ROWS
        while parts:
            wave = next(iter(group_into_waves(parts, rows)))
            self._scan_wave(context, wave, lease)
            rows *= _GROWTH
            left = parts[len(wave) :]
            parts = [*self._parts_still_needed(left, planned)] if left else []
        self._scanned_rows = self._total_rows
        self.progress(self._scanned_rows, self._total_rows)

    def _parts_still_needed(self, parts: Sequence[Part], planned: Plan) -> Iterator[Part]:
        result = self._build_result(planned)
        since = {
            number: result.oldest_arrival_of_last(number)
            for number in np.unique(np.concatenate([part.requests for part in parts])).tolist()
        }
        for part in parts:
            pending = [
                n for n in part.requests.tolist() if part.file.arrivals[1] >= (since[n] or 0)
            ]
            if pending:
                yield attrs.evolve(part, requests=np.array(pending))

    def _scan_replacements(self, lease: ReaderLease) -> Plan:
        missing, self._missing_parts = self._missing_parts, []
        state = self.archive.state_with_unlisted()
        planned = make_plan(state, self.requests)
        known = {part.file.path for part in self._parts.values()}
        replaced = state.manifest.removes
        for part in missing:
            if part.file.path not in replaced:
                # No merge replaced it. Its manifest may be lost as well.
                self._damaged_parts.append(part)
                reason = f"{part.file.path} is listed but missing"
                self._notes[reason] = None
                self._set_aside(part.file, reason)
        new = [part for part in planned.parts if part.file.path not in known]
        # Workers need a new matcher, since the plan may have new origins.
        self.name += "+"
        self._scan_plan(attrs.evolve(planned, parts=tuple(new)), lease)
        self._damaged_parts += self._missing_parts
        return planned

    # ---------------------------------------------------------------- one wave

    def _scan_wave(self, context: JobContext, wave: Sequence[Part], lease: ReaderLease) -> None:
        if self.cancelled():
            raise ReplayCancelled("the replay was cancelled")
        lease.renew()
        pending = [part for part in map(self._without_failed, wave) if len(part.requests)]
        for item in self.scanner.scan(context, pending, self.cancelled):
            if isinstance(item, PartSummary):
                self._apply_summary(item)
            elif item.num_rows:
                self._found.append(item)
                requested = item.column("requests")
                counts = np.diff(requested.offsets.to_numpy())
                sizes = item.column("size").to_numpy()
                self._quota.add_events(requested.flatten().to_numpy(), np.repeat(sizes, counts))
                self._quota.add_stored_bytes(int(sizes.sum()))
                self._failed.update(self._quota.refused)
        self._scanned_rows += sum(part.file.rows for part in wave)
        self.progress(min(self._scanned_rows, self._total_rows), self._total_rows)

    def _without_failed(self, part: Part) -> Part:
        if not self._failed:
            return part
        kept = ~np.isin(part.requests, list(self._failed))
        return attrs.evolve(part, requests=part.requests[kept])

    def _apply_summary(self, summary: PartSummary) -> None:
        part = self._parts[summary.part]
        for number, denied in summary.denied:
            self._denied[number] += denied
        self._failed.update(summary.failed)
        self._notes.update(
            dict.fromkeys(f"no DTD describes {each}" for each in summary.undescribed)
        )
        if summary.unreadable:
            self._notes[f"{part.file.path}: {summary.unreadable} unreadable events"] = None
        if summary.missing:
            self._missing_parts.append(part)
        elif summary.corrupt:
            self._damaged_parts.append(part)
            self._notes[summary.corrupt] = None
            self._set_aside(part.file, summary.corrupt)

    def _set_aside(self, file: ArchivedFile, reason: str) -> None:
        try:
            self.archive.set_aside(file, reason)
        except (ArchiveUnavailable, ArchiveCorrupt) as error:
            self._notes[f"{file.path} could not be set aside: {error}"] = None

    # ---------------------------------------------------------------- results

    def _build_result(self, planned: Plan) -> JobResult:
        found = pa.Table.from_batches(self._found, KEY_SCHEMA)
        result = JobResult(found, self.requests, planned.scope)
        result.drop_delivered(self._read_copies(planned.copies))
        return result

    def _read_copies(self, files: Iterable[ArchivedFile]) -> Iterator[pa.RecordBatch]:
        for file in files:
            try:
                yield from self.archive.read(file, COPY_COLUMNS, checked=True)
            except ArchiveCorrupt as error:
                # An event may then arrive twice, which its receiver detects.
                self._notes[f"no search for copies: {error}"] = None

    def _build_report(
        self, number: int, result: JobResult, coverage: ArchiveCoverage, looked_at: int
    ) -> Report:
        request = self.requests[number]
        lost = [part.file for part in self._damaged_parts if number in part.requests]
        report = Report(
            scanned_rows=looked_at,
            denied=int(self._denied[number]),
            upto=coverage.covered_upto(request),
            missing_ranges=coverage.missing_ranges(request, lost),
            notes=tuple(self._notes),
            error=self._failed.get(number),
        )
        if report.error is not None:
            return report
        got = result.build_request_result(number)
        write_request_order(self.folder, number, got.parts, got.rows, got.sizes)
        if request.order == BUNDLE:
            order = order_bundles(self.folder, number)
            write_request_order(
                self.folder, number, *(c[order] for c in (got.parts, got.rows, got.sizes))
            )
        return attrs.evolve(
            report,
            events=len(got.rows),
            bytes=int(got.sizes.sum()),
            duplicates=got.duplicates,
            contradictions=got.contradictions,
        )


def group_into_waves(parts: Sequence[Part], rows: int) -> Iterator[list[Part]]:
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
