"""How an engine scans files: what a job asks of it, and what a worker is told."""

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
    """What a worker needs to know of a job, beside the part that it scans."""

    job: str
    """Unlike that of any other job, so that a matcher is kept for this one."""
    uri: str
    """Of the archive, as a worker opens it."""
    requests: Sequence[ReplayRequest]
    origins: Sequence[str]
    texts: Mapping[DtdReference, bytes]
    """DTDs of the events' types."""
    variants: Mapping[str, Variants]
    """By origin the DTDs that judge its events instead of those of the same names."""
    limits: JobLimits
    folder: str
    """Where the events of each part go (`spool.py`)."""

    def new_matcher(self) -> RequestMatcher:
        """A new matcher for this job."""
        return RequestMatcher(
            self.requests, self.origins, self.texts, time.perf_counter, self.variants
        )


class Scanner(Protocol):
    """How an engine scans files."""

    @property
    def wave_rows(self) -> int:
        """About how many rows it is given at a time."""

    def scan(
        self, context: JobContext, parts: Sequence[Part], cancelled: Callable[[], bool]
    ) -> Iterable[pa.RecordBatch | PartSummary]:
        """What somebody wants of these parts (`KEY_SCHEMA`), whose events it has put into the folder, and
        a note for each part, in any order.

        Blocks; raises `ReplayCancelled`, `Overloaded` or `EngineUnavailable`.
        """


def scan_part_into(
    folder: Path, archive: Archive, part: Part, matcher: RequestMatcher, limits: JobLimits
) -> Iterator[pa.RecordBatch | PartSummary]:
    """The keys of what is wanted of a part, whose events go into the folder; a note at the end."""
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
