"""Ranges, times and clearances of many requests as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker.event.event_time import ANY_TIME
from broker.event.place import Mark
from broker.replay.ordering import Integers
from broker.replay.request import ReplayRequest

Flags: TypeAlias = NDArray[np.bool_]

#: Time of a row without a time of its own.
_NO_TIME: Final = -1
#: After any time and any mark.
_NEVER: Final = np.iinfo(np.int64).max


class RowPlaces:
    def __init__(self, batch: pa.RecordBatch, origins: Sequence[str]) -> None:
        """Origins that are not in `origins` get the number -1."""
        names, codes = dictionary_codes(batch.column("origin"))
        numbers = {name: number for number, name in enumerate(origins)}
        known = np.array([numbers.get(name or "", -1) for name in names], dtype=np.int64)
        self.origin: Integers = known[codes] if len(names) else codes
        self.epoch = integer_column(batch.column("epoch"))
        self.offset = integer_column(batch.column("offset"))
        self.arrival = integer_column(batch.column("arrival"))
        self.level = integer_column(batch.column("level"))
        self.time = integer_column(batch.column("time").fill_null(_NO_TIME))

    def origin_runs(self) -> list[tuple[int, int, int]]:
        """Return (origin, start, end) of runs of one origin."""
        changes = np.flatnonzero(np.diff(self.origin)) + 1
        bounds = [0, *changes.tolist(), len(self.origin)]
        return [
            (int(self.origin[start]), start, end)
            for start, end in zip(bounds, bounds[1:], strict=False)
            if end > start and self.origin[start] >= 0
        ]


class RequestScopes:
    def __init__(
        self,
        requests: Sequence[ReplayRequest],
        origins: Sequence[str],
        branches: Mapping[str, Sequence[Mark]] | None = None,
    ) -> None:
        """`branches` has the marks of an origin's resets.

        The log continued behind such a mark in its epoch.
        """
        branches = branches or {}
        self._branches = [branches.get(origin, ()) for origin in origins]
        size = (len(requests), len(origins))
        self.origins = tuple(origins)
        self._wanted = np.zeros(size, dtype=np.bool_)
        self._after_epoch, self._after_offset = np.zeros((2, *size), dtype=np.int64)
        self._upto_epoch, self._upto_offset = np.full((2, *size), _NEVER)
        for number, request in enumerate(requests):
            for place, origin in enumerate(origins):
                self._set_range(number, place, request, origin)
        self.start = np.array([each.from_ms for each in requests], dtype=np.int64)
        self.end = np.array([each.until_ms or _NEVER for each in requests], dtype=np.int64)
        begins = [(e.event_times[0] if is_ranged(e) else _NO_TIME) for e in requests]
        self._event_start = np.array(begins, dtype=np.int64)
        self._event_end = np.array([e.event_times[1] or _NEVER for e in requests], dtype=np.int64)
        self.has_event_ranges = any(map(is_ranged, requests))
        self.clearance = np.array([each.clearance for each in requests], dtype=np.int64)

    def _set_range(self, number: int, place: int, request: ReplayRequest, origin: str) -> None:
        requested = request.range_of(origin)
        if requested is None:
            return
        self._wanted[number, place] = True
        (self._after_epoch[number, place], self._after_offset[number, place]), upto = requested
        if upto is not None:
            self._upto_epoch[number, place], self._upto_offset[number, place] = upto

    def contains_pairs(self, places: RowPlaces, rows: Integers, requests: Integers) -> Flags:
        """Mark pairs that agree in place and time, without clearance."""
        origin, arrival, time = places.origin[rows], places.arrival[rows], places.time[rows]
        at = (requests, origin)
        found: Flags = (
            self._wanted[at]
            & (origin >= 0)
            & self._is_in_range(places, rows, at)
            & (arrival >= self.start[requests])
            & (arrival < self.end[requests])
            & (time >= self._event_start[requests])
            & (time < self._event_end[requests])
        )
        return found

    def _is_in_range(self, places: RowPlaces, rows: Integers, at: Any) -> Any:
        epoch, offset = places.epoch[rows], places.offset[rows]
        after, upto = self._after_epoch[at], self._upto_epoch[at]
        return ((epoch > after) | ((epoch == after) & (offset > self._after_offset[at]))) & (
            (epoch < upto) | ((epoch == upto) & (offset <= self._upto_offset[at]))
        )

    def begins_after(self, place: tuple[int, int, int], requests: Integers) -> Flags:
        """Mark requests that begin after (origin, epoch, offset) on its branch.

        Their clients have the event.
        """
        origin, epoch, offset = place
        after = self._after_epoch[requests, origin]
        found: Flags = self._wanted[requests, origin] & (
            (epoch < after) | ((epoch == after) & (offset <= self._after_offset[requests, origin]))
        )
        for later, branch in self._branches[origin]:
            if epoch < later and offset > branch:
                # A client in that epoch or a later one may have come from the other branch.
                found &= after < later
        return found

    def rows_for_any(self, places: RowPlaces, requests: Integers) -> Flags:
        """Mark rows within the joint bounds of the requests."""
        arrival = places.arrival
        found: Flags = arrival >= self.start[requests].min()
        found &= arrival < self.end[requests].max()
        found &= places.time >= self._event_start[requests].min()
        found &= places.time < self._event_end[requests].max()
        requested = np.zeros(len(arrival), dtype=np.bool_)
        for origin, start, end in places.origin_runs():
            of = requests[self._wanted[requests, origin]]
            if len(of):
                low = _min_mark(self._after_epoch[of, origin], self._after_offset[of, origin])
                high = _max_mark(self._upto_epoch[of, origin], self._upto_offset[of, origin])
                requested[_rows_in_range(places, start, end, low, high)] = True
        found &= requested
        return found

    def rows_for(self, places: RowPlaces, request: int) -> Integers:
        """Return rows by place and time, without clearance."""
        found: list[Integers] = []
        for origin, start, end in places.origin_runs():
            if self._wanted[request, origin]:
                low = (self._after_epoch[request, origin], self._after_offset[request, origin])
                high = (self._upto_epoch[request, origin], self._upto_offset[request, origin])
                part = _rows_in_range(places, start, end, low, high)
                found.append(np.arange(part.start, part.stop))
        if not found:
            return np.empty(0, dtype=np.int64)
        rows: Integers = np.concatenate(found)
        arrival, time = places.arrival[rows], places.time[rows]
        kept = (arrival >= self.start[request]) & (arrival < self.end[request])
        kept &= (time >= self._event_start[request]) & (time < self._event_end[request])
        return np.asarray(rows[kept])

    def overlaps_spans(
        self, spans: Sequence[tuple[int, tuple[int, int], tuple[int, int]]]
    ) -> Flags:
        """Mark requests with a range that overlaps a span (origin, first, last)."""
        found = np.zeros(len(self.start), dtype=np.bool_)
        for origin, first, last in spans:
            after, upto = self._after_epoch[:, origin], self._upto_epoch[:, origin]
            found |= (
                self._wanted[:, origin]
                & (
                    (last[0] > after)
                    | ((last[0] == after) & (last[1] > self._after_offset[:, origin]))
                )
                & (
                    (first[0] < upto)
                    | ((first[0] == upto) & (first[1] <= self._upto_offset[:, origin]))
                )
            )
        return found

    def overlaps_bounds(self, bounds: Mapping[str, tuple[Any, ...]]) -> Flags:
        """Mark requests that may match rows within these bounds, which are empty for a column
        without any value."""
        found = np.ones(len(self.start), dtype=np.bool_)
        if "arrival" in bounds:
            least, greatest = bounds["arrival"]
            found &= (greatest >= self.start) & (least < self.end)
        if "time" in bounds:
            least, greatest = bounds["time"] or (_NO_TIME, _NO_TIME)
            found &= (greatest >= self._event_start) & (least < self._event_end)
        first, last = bounds.get("origin", ("", None))
        if first == last and first in self.origins and {"epoch", "offset"} <= bounds.keys():
            # Rows are sorted by mark, but an epoch may begin at any offset.
            (epoch, upto_epoch), (offset, upto_offset) = bounds["epoch"], bounds["offset"]
            marks = ((epoch, offset), (upto_epoch, upto_offset))
            found &= self.overlaps_spans([(self.origins.index(first), *marks)])
        return found

    def latest_start(self, origin: int) -> tuple[int, int]:
        of = self._wanted[:, origin]
        if not of.any():
            return (0, 0)
        return _max_mark(self._after_epoch[of, origin], self._after_offset[of, origin])


def is_ranged(request: ReplayRequest) -> bool:
    """Return True if only events with some times of their own are requested."""
    return request.event_times != ANY_TIME


def integer_column(column: pa.Array) -> Integers:
    values: Integers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def dictionary_codes(column: pa.Array) -> tuple[list[str | None], Integers]:
    """Return distinct names, and the number of each row's name."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.dictionary.to_pylist(), integer_column(column.indices)


def _min_mark(epoch: Integers, offset: Integers) -> tuple[int, int]:
    least = epoch.min()
    return int(least), int(offset[epoch == least].min())


def _max_mark(epoch: Integers, offset: Integers) -> tuple[int, int]:
    greatest = epoch.max()
    return int(greatest), int(offset[epoch == greatest].max())


def _rows_in_range(
    places: RowPlaces, start: int, end: int, after: tuple[int, int], upto: tuple[int, int]
) -> slice:
    """Return the rows of a sorted run in (after, upto]."""
    return slice(
        _first_row_after(places, start, end, after),
        _first_row_after(places, start, end, upto),
    )


def _first_row_after(places: RowPlaces, start: int, end: int, mark: tuple[int, int]) -> int:
    epoch, offset = mark
    epochs = places.epoch[start:end]
    low, high = np.searchsorted(epochs, epoch, "left"), np.searchsorted(epochs, epoch, "right")
    within = np.searchsorted(places.offset[start + low : start + high], offset, "right")
    return int(start + low + within)
