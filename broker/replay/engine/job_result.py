"""The found events of each request, without copies and in order.

Two files may hold the same event: one repeated place, of which the lowest stamp counts
(`broker.archive.row_order`). If a publisher moved, an EventId may have two
places; the first in order counts. The event is omitted if the client has passed one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from broker.archive.row_order import rank_names, sort_by_stamp
from broker.replay.engine.request_scope import RequestScopes, dictionary_codes, integer_column
from broker.replay.ordering import (
    Integers,
    OrderKeys,
    StackPlaces,
    mark_first_of_each,
    order_events,
)
from broker.replay.request import PLACE, ReplayRequest

COPY_COLUMNS: Final = (
    *("origin", "epoch", "offset", "client", "timestamp", "sequence", "incarnation"),
)


@attrs.frozen(eq=False)
class RequestResult:
    parts: Integers
    rows: Integers
    sizes: Integers
    duplicates: int
    contradictions: int


class JobResult:
    def __init__(
        self, found: pa.Table, requests: Sequence[ReplayRequest], scope: RequestScopes
    ) -> None:
        """`found` has the columns `KEY_SCHEMA`."""
        found = sort_by_stamp(found)
        self._requests = requests
        self._scope = scope
        self._part, self._row, self._size = (
            integer_column(_combined_column(found, name)) for name in ("part", "row", "size")
        )
        self._clients, client = dictionary_codes(_combined_column(found, "client"))
        self._client = client
        self._incarnation = integer_column(_combined_column(found, "incarnation"))
        self._keys = keys = self._build_keys(found)
        self._identity = _first_equal_row(keys.publisher, keys.sequence, keys.timestamp)
        self._has_copies = np.bincount(self._identity, minlength=len(client)) > 1
        requests_column = _combined_column(found, "requests")
        events = np.repeat(
            _first_equal_row(keys.origin, keys.epoch, keys.offset),
            np.diff(integer_column(requests_column.offsets)),
        )
        numbers = integer_column(requests_column.flatten())
        distinct = mark_first_of_each(numbers, events)
        self._duplicates = np.zeros(len(requests), dtype=np.int64)
        self._set_pairs(events[distinct], numbers[distinct])

    def _build_keys(self, found: pa.Table) -> OrderKeys:
        origins = {name: number for number, name in enumerate(self._scope.origins)}
        names, codes = dictionary_codes(_combined_column(found, "origin"))
        numbers = np.array([origins[name or ""] for name in names], dtype=np.int64)
        incarnations, incarnation = np.unique(self._incarnation, return_inverse=True)
        _, stack = dictionary_codes(_combined_column(found, "stack").fill_null(""))
        orders = _combined_column(found, "stack_order")
        return OrderKeys(
            origin=numbers[codes],
            epoch=integer_column(_combined_column(found, "epoch")),
            offset=integer_column(_combined_column(found, "offset")),
            arrival=integer_column(_combined_column(found, "arrival")),
            publisher=self._client * max(1, len(incarnations)) + incarnation,
            sequence=integer_column(_combined_column(found, "sequence")),
            timestamp=integer_column(_combined_column(found, "timestamp")),
            stacks=StackPlaces(
                np.where(orders.is_null(), -1, stack),
                integer_column(orders.fill_null(0)),
                rank_names(found.column("stack_site")),
            ),
        )

    def _set_pairs(self, events: Integers, numbers: Integers) -> None:
        order = np.argsort(numbers, kind="stable")
        self._events, self._numbers = events[order], numbers[order]
        self._bounds = np.searchsorted(self._numbers, np.arange(len(self._requests) + 1))

    # ---------------------------------------------------------------- copies at the client

    def drop_delivered(self, copies: Iterable[pa.RecordBatch]) -> None:
        """Omit events with a copy (`COPY_COLUMNS`) at a place that the client has passed."""
        identity = self._identity[self._events]
        by_identity = np.argsort(identity, kind="stable")
        identities = identity[by_identity]
        had = np.zeros(len(identity), dtype=np.bool_)
        for batch in copies:
            for event, place in self._places_of_copies(batch):
                start, end = np.searchsorted(identities, (event, event + 1))
                pairs = by_identity[start:end]
                had[pairs] |= self._scope.begins_after(place, self._numbers[pairs])
        if had.any():
            self._duplicates += np.bincount(self._numbers[had], minlength=len(self._requests))
            self._set_pairs(self._events[~had], self._numbers[~had])

    def _places_of_copies(
        self, copies: pa.RecordBatch
    ) -> Iterable[tuple[int, tuple[int, int, int]]]:
        """Yield the events with another place in `copies`, and that place."""
        keys = self._keys
        left_columns = [_positions_in(copies.column("client"), self._clients)]
        left_columns += [
            integer_column(copies.column(n)) for n in ("incarnation", "sequence", "timestamp")
        ]
        right_columns = [self._client, self._incarnation, keys.sequence, keys.timestamp]
        rows, events = _match_equal_rows(left_columns, right_columns)
        origins = _positions_in(copies.column("origin"), self._scope.origins)[rows]
        epochs, offsets = (
            integer_column(copies.column(name))[rows] for name in ("epoch", "offset")
        )
        other = (
            (origins != keys.origin[events])
            | (epochs != keys.epoch[events])
            | (offsets != keys.offset[events])
            | self._has_copies[events]
        ) & (origins >= 0)
        for place in np.flatnonzero(other).tolist():
            at = (int(origins[place]), int(epochs[place]), int(offsets[place]))
            yield int(events[place]), at

    def build_request_result(self, number: int) -> RequestResult:
        request = self._requests[number]
        events = self._events[self._bounds[number] : self._bounds[number + 1]]
        distinct = len(np.unique(self._identity[events])) if self._has_copies.any() else len(events)
        duplicates = int(self._duplicates[number]) + len(events) - distinct
        if request.last:
            events = self._select_latest(events, request.last)
        order = order_events(self._keys.select(events, stacks=request.order == PLACE))
        events = events[order.rows]
        if len(events) > distinct:
            events = events[mark_first_of_each(self._identity[events])]
        return RequestResult(
            self._part[events],
            self._row[events],
            self._size[events],
            duplicates,
            order.contradictions,
        )

    def _select_latest(self, events: Integers, most: int) -> Integers:
        """Only the last copy of each event counts, so older files are not needed."""
        keys = self._keys.select(events)
        backwards = np.lexsort((keys.offset, keys.epoch, keys.origin, keys.arrival))[::-1]
        events = events[backwards]
        return events[mark_first_of_each(self._identity[events])][:most]

    def oldest_arrival_of_last(self, number: int) -> int | None:
        """Return ms since 1970; None if there are fewer than n events."""
        events = self._events[self._bounds[number] : self._bounds[number + 1]]
        latest = self._select_latest(events, self._requests[number].last)
        if len(latest) < self._requests[number].last:
            return None
        return int(self._keys.arrival[latest[-1]])


def _combined_column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _positions_in(column: pa.Array, names: Sequence[str | None]) -> Integers:
    """Return -1 for values that are not in `names`."""
    numbers = {name: number for number, name in enumerate(names)}
    found, codes = dictionary_codes(column)
    return np.array([numbers.get(name, -1) for name in found], dtype=np.int64)[codes]


def _first_equal_row(*columns: Integers) -> Integers:
    order = np.lexsort(columns)
    new = np.ones(len(order), dtype=np.bool_)
    new[1:] = False
    for column in columns:
        values = column[order]
        new[1:] |= values[1:] != values[:-1]
    found = np.empty(len(order), dtype=np.int64)
    # lexsort is stable: the first of equal rows has the lowest number.
    found[order] = order[new][np.cumsum(new) - 1]
    return found


def _match_equal_rows(
    left_columns: Sequence[Integers], right_columns: Sequence[Integers]
) -> tuple[Integers, Integers]:
    """Return left rows that match, each with its first equal right row."""
    size = len(right_columns[0])
    first = _first_equal_row(
        *(np.concatenate(pair) for pair in zip(right_columns, left_columns, strict=True))
    )[size:]
    rows = np.flatnonzero(first < size)
    return rows, first[rows]
