"""The interface by which a job scans files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import attrs
import pyarrow as pa

from broker.archive.archive import Archive
from broker.dtd.reference import DtdReference
from broker.matching.contract import Variants
from broker.replay.engine.contract import JobLimits
from broker.replay.engine.part_scan import EVENT_SCHEMA, PartSummary, scan_part
from broker.replay.engine.plan import Part
from broker.replay.engine.request_matcher import RequestMatcher
from broker.replay.request import ReplayRequest
from broker.replay.spool import PartWriter


@attrs.frozen(eq=False)
class JobContext:
    """A worker's data besides its part."""

    job: str
    """Unique. Workers keep the job's matcher."""
    uri: str
    requests: Sequence[ReplayRequest]
    origins: Sequence[str]
    texts: Mapping[DtdReference, bytes]
    variants: Mapping[str, Variants]
    """DTDs that replace others of the same name, by origin."""
    limits: JobLimits
    folder: str
    """For the events of each part (`spool.py`)."""

    def new_matcher(self) -> RequestMatcher:
        return RequestMatcher(
            self.requests, self.origins, self.texts, time.perf_counter, self.variants
        )


class Scanner(Protocol):
    @property
    def wave_rows(self) -> int:
        """Approximate rows per wave."""

    def scan(
        self, context: JobContext, parts: Sequence[Part], cancelled: Callable[[], bool]
    ) -> Iterable[pa.RecordBatch | PartSummary]:
        """Yield requested keys (`KEY_SCHEMA`) and a summary of each part, in any order.

        Events are written to the folder. Blocks. Raises `ReplayCancelled`, `Overloaded` or
        `EngineUnavailable`.
        """


def scan_part_into(
    folder: Path, archive: Archive, part: Part, matcher: RequestMatcher, limits: JobLimits
) -> Iterator[pa.RecordBatch | PartSummary]:
    """Write events to the folder; yield their keys, and a summary at the end."""
    writer = PartWriter(folder, part.number, EVENT_SCHEMA)
    try:
        for item in scan_part(archive, part, matcher, limits):
            if isinstance(item, PartSummary):
                writer.commit()
                yield item
            else:
                writer.write(item.events)
                yield item.keys
    except BaseException:
        writer.abandon()
        raise
