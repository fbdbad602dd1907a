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
from broker.replay.engine.contract import Limits
from broker.replay.engine.matching import Matching
from broker.replay.engine.plan import Part
from broker.replay.engine.scan import EVENT, Note, scan
from broker.replay.request import ReplayRequest
from broker.replay.spool import PartWriter


@attrs.frozen(eq=False)
class Context:
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
    limits: Limits
    folder: str
    """Where the events of each part go (`spool.py`)."""

    def matching(self) -> Matching:
        """A new matcher for this job."""
        return Matching(self.requests, self.origins, self.texts, time.perf_counter, self.variants)


class Scanner(Protocol):
    """How an engine scans files."""

    @property
    def wave_rows(self) -> int:
        """About how many rows it is given at a time."""

    def scan(
        self, context: Context, parts: Sequence[Part], cancelled: Callable[[], bool]
    ) -> Iterable[pa.RecordBatch | Note]:
        """What somebody wants of these parts (`KEYS`), whose events it has put into the folder, and
        a note for each part, in any order.

        Blocks; raises `ReplayCancelled`, `Overloaded` or `EngineUnavailable`.
        """


def scan_into(
    folder: Path, archive: Archive, part: Part, matching: Matching, limits: Limits
) -> Iterator[pa.RecordBatch | Note]:
    """The keys of what is wanted of a part, whose events go into the folder; a note at the end."""
    writer = PartWriter(folder, part.number, EVENT)
    try:
        for item in scan(archive, part, matching, limits):
            if isinstance(item, Note):
                writer.commit()
                yield item
            else:
                writer.write(item.events)
                yield item.keys
    except BaseException:
        writer.abandon()
        raise
