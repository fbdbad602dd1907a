"""The pure-Python engine: it scans one file after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from broker.archive.archive import Archive
from broker.dtd.catalogue import Catalogue
from broker.errors import ReplayCancelled
from broker.replay.engine.contract import DEFAULT_LIMITS, JobLimits, Report, ReportProgress
from broker.replay.engine.job import Job
from broker.replay.engine.part_scan import PartSummary
from broker.replay.engine.plan import Part
from broker.replay.engine.request_matcher import RequestMatcher
from broker.replay.engine.scanner import JobContext, scan_part_into
from broker.replay.request import ReplayRequest

#: About half a second between progress reports.
_WAVE_ROWS: Final = 50_000


class LocalEngine:
    name = "local"
    wave_rows = _WAVE_ROWS

    def __init__(
        self, archive: Archive, catalogue: Catalogue, limits: JobLimits = DEFAULT_LIMITS
    ) -> None:
        self._archive = archive
        self._catalogue = catalogue
        self._limits = limits
        self._matcher: tuple[str, RequestMatcher] | None = None
        self._jobs = 0

    def warm_up(self) -> None:
        """See `Engine`: nothing to start."""

    def run(
        self,
        requests: Sequence[ReplayRequest],
        folder: Path,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        self._jobs += 1
        name = f"{self._jobs}"
        job = Job(
            *(self._archive, self._catalogue, self, self._limits, name),
            *(requests, folder, progress, cancelled),
        )
        try:
            return job.run()
        finally:
            self._matcher = None

    def close(self) -> None:
        """See `Engine`."""

    def scan(
        self, context: JobContext, parts: Sequence[Part], cancelled: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch | PartSummary]:
        if self._matcher is None or self._matcher[0] != context.job:
            self._matcher = (context.job, context.new_matcher())
        for part in parts:
            for item in scan_part_into(
                Path(context.folder), self._archive, part, self._matcher[1], context.limits
            ):
                if cancelled():
                    raise ReplayCancelled("the replay was cancelled")
                yield item
