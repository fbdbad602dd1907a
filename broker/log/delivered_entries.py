"""Order entries of own events as they were delivered.

A sequencer numbers an event after its commit. So the event has an entry without a stamp, and its
copy (`broker.log.known_flows`) one with the number.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import lmdb

from broker.archive.chunk_columns import ChunkColumns
from broker.event.annotation import annotation_of, with_annotation
from broker.event.flow import is_within_intervals
from broker.event.order_entry import OrderEntry, decode_order_entry, encode_order_entry
from broker.event.place import Mark
from broker.log.known_flows import KnownFlows, stream_of
from broker.log.stored_chunk import StoredChunk
from broker.log.tables import Tables
from broker.log.withheld_flows import WithheldFlows


class NotDelivered(Exception):
    """The next own event is committed, and its transport has not delivered it yet."""


class DeliveredEntries:
    """The own events of a log in one transaction."""

    def __init__(self, txn: lmdb.Transaction, tables: Tables, origin: str) -> None:
        self._txn = txn
        self._tables = tables
        self._origin = origin
        withheld = WithheldFlows(tables.histories.withheld_intervals(txn))
        self._flows = KnownFlows(origin, tables.histories.flow_intervals(txn), withheld)
        self._covered = tables.origins.covered(txn) if withheld.intervals else {}

    def read_columns(self, chunk: StoredChunk, start: int, most: int) -> tuple[ChunkColumns, bool]:
        """Return at most `most` events from the serial `start` on, with the stamps of their
        delivery; False if they end before an event that waits for its stamp."""
        last = min(chunk.last, start + most - 1)
        if not self._flows.withheld:
            return ChunkColumns.from_chunk(chunk, start, most), True
        records = self._number_records(chunk, start, last)
        columns = ChunkColumns.from_chunk(chunk, start, len(records), records)
        return columns, start + len(records) > last

    def _number_records(self, chunk: StoredChunk, start: int, last: int) -> Sequence[bytes]:
        records, copies = [], None
        for serial, record in chunk.records():
            if not start <= serial <= last:
                continue
            entry, mark = decode_order_entry(annotation_of(record)), chunk.mark_at(serial)
            if entry is not None and entry.stamp is None:
                if self._is_waiting(record, mark):
                    break
                if copies is None:
                    copies = self._read_copies(mark, chunk.mark_at(last))
                # Retention may have removed the copy.
                copy = copies.get(mark, entry)
                numbered = attrs.evolve(entry, stamp=copy.stamp, tie=copy.tie)
                record = with_annotation(record, encode_order_entry(numbered))
            records.append(record)
        return records

    def _is_waiting(self, record: bytes, mark: Mark) -> bool:
        flow = self._flows.flow_at(self._origin, stream_of(record), mark)
        is_withheld = is_within_intervals(self._flows.withheld.get(flow, ()), mark)
        return is_withheld and self._covered.get(flow, (0, 0)) < mark

    def _read_copies(self, first: Mark, last: Mark) -> dict[Mark, OrderEntry]:
        """Return the entries of the copies of own events from one place to another."""
        found: dict[Mark, OrderEntry] = {}
        for flow in self._flows.withheld:
            after = first[0], first[1] - 1
            for chunk in self._tables.origins.chunks_after(self._txn, flow, after):
                if chunk.mark_at(chunk.first) > last:
                    break
                if isinstance(chunk, StoredChunk):
                    for serial, record in chunk.records():
                        entry = decode_order_entry(annotation_of(record))
                        if entry is not None:
                            found[chunk.mark_at(serial)] = entry
        return found
