"""The archive as recoveries see it: with a range for each flow of an origin.

Rows of the archive have the origin, the stream and the mark of an event, and so its flow
(`broker.event.flow`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import attrs
from twisted.internet.defer import Deferred

from broker.event.flow import origin_of, pattern_of
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.known_flows import KnownFlows, stream_of
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess, Coverage, Replay, Replays
from broker.replay.request import Range, ReplayRequest

_T = TypeVar("_T")


def with_flows(archive: ArchiveAccess, flows: KnownFlows) -> ArchiveAccess:
    """Return an access whose ranges, marks and events have flows in place of origins."""

    def get_coverage(after: Mapping[str, Mark]) -> Deferred[Coverage]:
        lowest: dict[str, Mark] = {}
        for flow, mark in after.items():
            origin = origin_of(flow)
            lowest[origin] = min(mark, lowest.get(origin, mark))
        found = archive.get_coverage(lowest)
        if lowest == after:
            return found
        return found.addCallback(lambda coverage: _of_flows(coverage, after, flows))

    return attrs.evolve(
        archive, replays=FlowReplays(archive.replays, flows), get_coverage=get_coverage
    )


def _of_flows(coverage: Coverage, after: Mapping[str, Mark], flows: KnownFlows) -> Coverage:
    def by_flow(values: Mapping[str, _T]) -> dict[str, _T]:
        return {flow: values[origin_of(flow)] for flow in after if origin_of(flow) in values}

    limited = {
        flow: [
            (start, end)
            for start, end in ((start, flows.limit(flow, end)) for start, end in intervals)
            if start < end and end > after[flow]
        ]
        for flow, intervals in by_flow(coverage.intervals).items()
    }
    unnamed = {origin_of(flow) for flow in after} - after.keys()
    return attrs.evolve(
        coverage,
        intervals=limited,
        repairable=frozenset(flow for flow in after if origin_of(flow) in coverage.repairable),
        other_origins=coverage.other_origins | (unnamed & coverage.intervals.keys()),
        lost_ends=by_flow(coverage.lost_ends),
    )


class FlowReplays:
    """Implements `broker.recovery.archive_access.Replays`."""

    def __init__(self, replays: Replays, flows: KnownFlows) -> None:
        self._replays = replays
        self._flows = flows

    def start_replay(self, request: ReplayRequest) -> Replay:
        ranges = dict(request.ranges)
        origins = {*map(origin_of, ranges)}
        if request.others:
            # Flows that the request does not name are requested in full, as origins are.
            for origin in origins:
                for flow in self._flows.of_origin(origin):
                    ranges.setdefault(flow, (self._flows.since(flow), None))
        elif origins == ranges.keys() and not any(map(self._has_flows, origins)):
            return self._replays.start_replay(request)
        known: dict[str, Mark] = {}
        for flow, mark in request.known.items():
            known[origin_of(flow)] = max(mark, known.get(origin_of(flow), mark))
        of_origins = attrs.evolve(request, ranges=_hulls(ranges), known=known)
        return FlowReplay(self._replays.start_replay(of_origins), ranges, self._flows)

    def _has_flows(self, origin: str) -> bool:
        return len(self._flows.of_origin(origin)) > 1


def _hulls(ranges: Mapping[str, Range]) -> dict[str, Range]:
    """Return one range for each origin, around those of its flows."""
    hulls: dict[str, Range] = {}
    for flow, (after, upto) in ranges.items():
        origin = origin_of(flow)
        if origin in hulls:
            lowest, furthest = hulls[origin]
            after = min(after, lowest)
            upto = None if upto is None or furthest is None else max(upto, furthest)
        hulls[origin] = (after, upto)
    return hulls


class FlowReplay:
    """Implements `broker.recovery.archive_access.Replay`."""

    def __init__(self, replay: Replay, ranges: Mapping[str, Range], flows: KnownFlows) -> None:
        self._replay = replay
        self._ranges = ranges
        self._flows = flows
        self._unknown: dict[str, list[tuple[str, StreamPattern]]] = {}
        """By origin the named flows whose intervals are unknown."""
        self._named: dict[str, list[str]] = {}
        for flow in ranges:
            self._named.setdefault(origin_of(flow), []).append(flow)
            if pattern := pattern_of(flow):
                if not flows.intervals_of(flow):
                    unknown = self._unknown.setdefault(origin_of(flow), [])
                    unknown.append((flow, StreamPattern.parse(pattern)))

    @property
    def scanned_rows(self) -> tuple[int, int]:
        return self._replay.scanned_rows

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        return Deferred.fromCoroutine(self._next_events())

    async def _next_events(self) -> Sequence[LoggedEvent]:
        while events := await self._replay.next_events():
            labelled = [(event, self._find_flow(event)) for event in events]
            found = [
                event if event.origin == flow else attrs.evolve(event, origin=flow)
                for event, flow in labelled
                if flow is not None
            ]
            if found:
                return found
        return events

    def _find_flow(self, event: LoggedEvent) -> str | None:
        """Return the flow of an event; None if its range is not requested."""
        if event.origin not in self._named:
            return event.origin
        stream = stream_of(event.record)
        flow = self._flows.flow_at(event.origin, stream, event.mark)
        # The event may belong to a flow of unknown intervals: a duplicate is better than a loss.
        unknown = self._unknown.get(event.origin, ())
        candidates = [flow, *(each for each, pattern in unknown if pattern.matches(stream))]
        return next((each for each in candidates if self._is_requested(each, event.mark)), None)

    def _is_requested(self, flow: str, mark: Mark) -> bool:
        requested = self._ranges.get(flow)
        if requested is None:
            return False
        after, upto = requested
        return after < mark and (upto is None or mark <= upto)

    def end_marks(self) -> Mapping[str, Mark]:
        return {
            flow: self._flows.limit(flow, mark)
            for origin, mark in self._replay.end_marks().items()
            for flow in self._named.get(origin, (origin,))
        }

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        found = []
        for origin, after, upto in self._replay.missing_ranges():
            if origin not in self._named:
                found.append((origin, after, upto))
            for flow in self._named.get(origin, ()):
                begun, end = self._ranges[flow]
                first = max(after, begun, self._flows.since(flow))
                last = self._flows.limit(flow, upto if end is None else min(upto, end))
                if first < last:
                    found.append((flow, first, last))
        return found

    def cancel(self) -> None:
        self._replay.cancel()
