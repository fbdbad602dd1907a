"""The order of bundles in the result of one request (Mspaces M30-M39)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgpack
import numpy as np

from broker.errors import InvalidEvent
from broker.event.envelope import EventLinkage
from broker.event.merging.linkage import read_linkage
from broker.event.merging.resolution import Row, resolve
from broker.log.logged_event import LoggedEvent, header_from_fields
from broker.replay.ordering import Integers
from broker.replay.spool import Spool

#: Only the linkage of read events stays in memory.
_PAGE_EVENTS: Final = 1_000
_PAGE_BYTES: Final = 16 << 20
_NO_LINKAGE: Final = EventLinkage()


def order_bundles(folder: Path, request: int) -> Integers:
    """Return the resolved order, as positions in the spool's current order."""
    spool = Spool(folder)
    rows: list[Row] = []
    size = spool.count_events(request)
    while len(rows) < size:
        rows += map(_read_row, spool.read_events(request, len(rows), _PAGE_EVENTS, _PAGE_BYTES))
    return np.array(resolve(rows), dtype=np.int64)


def _read_row(event: LoggedEvent) -> Row:
    header = header_from_fields(msgpack.unpackb(event.record))
    try:
        linkage = read_linkage(event.document)
    except InvalidEvent:
        linkage = _NO_LINKAGE
    return Row(header.stream, header.event_id, linkage)
