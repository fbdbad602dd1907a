"""The order of bundles for one request (Mspaces M30-M39): over what it was found to get."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgpack
import numpy as np

from broker.errors import InvalidEvent
from broker.event.envelope import EventLinkage
from broker.event.merging.finished import Row, resolve
from broker.event.merging.reading import linkage_of
from broker.log.records import LoggedEvent, header_from_fields
from broker.replay.ordering import Integers
from broker.replay.spool import Spool

#: Events that are read at a time: of each the linkage alone is kept.
_PAGE: Final = 1_000
_PAGE_BYTES: Final = 16 << 20
_NOTHING: Final = EventLinkage()


def bundle_order(folder: Path, request: int) -> Integers:
    """Where each place of the resolved order takes its event from, among those of a spool that has
    been written already."""
    spool = Spool(folder)
    rows: list[Row] = []
    size = spool.size(request)
    while len(rows) < size:
        rows += map(_row, spool.read(request, len(rows), _PAGE, _PAGE_BYTES))
    return np.array(resolve(rows), dtype=np.int64)


def _row(event: LoggedEvent) -> Row:
    header = header_from_fields(msgpack.unpackb(event.record))
    try:
        linkage = linkage_of(event.document)
    except InvalidEvent:
        # What can not be read links to nothing.
        linkage = _NOTHING
    return Row(header.stream, header.event_id, linkage)
