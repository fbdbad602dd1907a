"""Selection of the files for a job, by partition, time and place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from broker.archive.archive_state import ArchiveState
from broker.archive.interval import branch_starts
from broker.archive.layout import partition_may_match
from broker.archive.manifest_entry import ArchivedFile
from broker.dtd.reference import DtdReference
from broker.event.stream import StreamPattern
from broker.matching.contract import Variants
from broker.replay.engine.request_scope import Flags, RequestScopes
from broker.replay.ordering import Integers
from broker.replay.request import ORIGIN_START, ReplayRequest

#: Copies that the client has are searched so long before the first file.
COPIES_MS: Final = 600_000


@attrs.frozen(eq=False)
class Part:
    number: int
    file: ArchivedFile
    requests: Integers
    """Requests that may find events in the file."""


@attrs.frozen(eq=False)
class Plan:
    """The files of a job, oldest first."""

    parts: tuple[Part, ...]
    damaged: tuple[Part, ...]
    origins: tuple[str, ...]
    """All origins with archived events, sorted."""
    copies: tuple[ArchivedFile, ...]
    """Files that may have copies at places that clients have passed."""
    scope: RequestScopes
    variants: Mapping[str, Variants]
    """DTD texts that replace the defaults, by origin."""

    @property
    def rows(self) -> int:
        return sum(part.file.rows for part in self.parts)

    @property
    def types(self) -> set[DtdReference]:
        """Types of all events, with variants."""
        named = {DtdReference(*each) for part in self.parts for each in part.file.types}
        own = (text for texts in self.variants.values() for text in texts.items())
        return named | {variant for reference, variant in own if reference in named}

    def rows_per_request(self) -> Integers:
        rows = np.zeros(len(self.scope.start), dtype=np.int64)
        for part in self.parts:
            rows[part.requests] += part.file.rows
        return rows


def make_plan(state: ArchiveState, requests: Sequence[ReplayRequest]) -> Plan:
    damaged = state.damaged_files.values()
    files = sorted(state.files.values(), key=_arrival_order)
    origins = tuple(sorted({o for file in (*files, *damaged) for o in file.spans}))
    covers = state.manifest.covers
    scope = RequestScopes(
        requests, origins, {origin: branch_starts(each) for origin, each in covers.items()}
    )
    filter_ = _RequestFilter(requests, scope)
    parts = _plan_parts(filter_, files)
    return Plan(
        parts,
        _plan_parts(filter_, sorted(damaged, key=_arrival_order)),
        origins,
        tuple(_find_copy_files(scope, parts, files, requests)),
        scope,
        state.variants,
    )


def _arrival_order(file: ArchivedFile) -> tuple[int, str]:
    return (file.arrivals[0], file.path)


def _plan_parts(filter_: _RequestFilter, files: Iterable[ArchivedFile]) -> tuple[Part, ...]:
    found: list[Part] = []
    for file in files:
        requests = np.flatnonzero(filter_.select_requests(file))
        if len(requests):
            found.append(Part(len(found), file, requests))
    return tuple(found)


class _RequestFilter:
    def __init__(self, requests: Sequence[ReplayRequest], scope: RequestScopes) -> None:
        self._scope = scope
        self._numbers = {origin: number for number, origin in enumerate(scope.origins)}
        by_pattern: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            by_pattern.setdefault(request.pattern, []).append(number)
        self._size = len(requests)
        self._by_pattern = [(StreamPattern.parse(t), np.array(n)) for t, n in by_pattern.items()]
        self._of_streams: dict[tuple[str, tuple[str, ...] | None], Flags] = {}

    def select_requests(self, file: ArchivedFile) -> Flags:
        scope = self._scope
        least, greatest = file.arrivals
        spans = [(self._numbers[origin], *marks) for origin, marks in file.spans.items()]
        return np.asarray(
            self._match_streams(file)
            & (greatest >= scope.start)
            & (least < scope.end)
            & scope.overlaps_spans(spans)
        )

    def _match_streams(self, file: ArchivedFile) -> Flags:
        key = (file.partition, file.streams)
        known = self._of_streams.get(key)
        if known is None:
            known = self._of_streams[key] = np.zeros(self._size, dtype=np.bool_)
            for pattern, numbers in self._by_pattern:
                known[numbers] = (
                    partition_may_match(file.partition, pattern)
                    if file.streams is None
                    else any(map(pattern.matches, file.streams))
                )
        return known


def _find_copy_files(
    scope: RequestScopes,
    parts: Sequence[Part],
    files: Iterable[ArchivedFile],
    requests: Sequence[ReplayRequest],
) -> Iterable[ArchivedFile]:
    """Yield files with places that a client has passed, shortly before its range."""
    # With one origin, no event has another place.
    passed = _latest_starts(scope) if len(scope.origins) > 1 else {}
    has_position = np.array(
        [any(a > ORIGIN_START for a, _ in each.ranges.values()) for each in requests]
    )
    since = min((p.file.arrivals[0] for p in parts if has_position[p.requests].any()), default=None)
    if since is None:
        return
    for file in files:
        if file.arrivals[1] >= since - COPIES_MS and any(
            first <= passed.get(origin, ORIGIN_START) for origin, (first, _) in file.spans.items()
        ):
            yield file


def _latest_starts(scope: RequestScopes) -> Mapping[str, tuple[int, int]]:
    latest = {origin: scope.latest_start(n) for n, origin in enumerate(scope.origins)}
    return {origin: mark for origin, mark in latest.items() if mark > ORIGIN_START}
