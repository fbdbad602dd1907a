"""Flows of this log's origin and of others (`broker.event.flow`), with their intervals.

The log stores own events under the origin, so its offsets have no gaps. The flow of an own event
follows from its stream and mark. Events of other nodes are stored under their flow.

The events of an ordered flow are withheld: its transport decides their order among those of other
nodes (`broker.streams.contract.Guarantee.ONE_ORDER`). When it hands them over, the log stores a
copy of each under its flow, and subscriptions get the copies. Other nodes, replicas and the archive
get the events under the origin.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs
import msgpack

from broker.event.flow import (
    FlowInterval,
    is_default_flow,
    is_within_intervals,
    origin_of,
    pattern_of,
    precedence,
)
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent, relabelled
from broker.log.withheld_flows import WithheldFlows

#: Flows of other origins; further ones are read as default flows.
MAX_FOREIGN_FLOWS = 4_096
_BEFORE_ALL: Mark = (0, 0)
_STREAM_FIELD = 4


@attrs.frozen
class _Flow:
    key: str
    pattern: StreamPattern
    intervals: tuple[FlowInterval, ...]


def stream_of(record: bytes) -> str:
    """Return the stream in an event's record (`broker.log.logged_event`)."""
    stream: str = msgpack.unpackb(record)[_STREAM_FIELD]
    return stream


class KnownFlows:
    def __init__(
        self,
        origin: str,
        intervals: Mapping[str, tuple[FlowInterval, ...]],
        withheld: WithheldFlows | None = None,
    ) -> None:
        """`origin` is this log's. `intervals` are those of all flows, `withheld` own ones."""
        self._origin = origin
        known = withheld or WithheldFlows()
        self.withheld, self.ordered, self.lapsed = known.intervals, known.ordered, known.lapsed
        self._intervals = dict(intervals)
        self._by_origin: dict[str, list[_Flow]] = {}
        """Without default flows; the pattern with the greatest rank first."""
        for origin_name in {*map(origin_of, intervals)}:
            self._sort_flows(origin_name)
        self.own: tuple[str, ...] = tuple([each.key for each in self._by_origin.get(origin, ())])
        """Other flows than the default one, open or closed."""

    def is_own(self, flow: str) -> bool:
        return flow == self._origin or (
            not is_default_flow(flow) and origin_of(flow) == self._origin
        )

    def is_ordered(self, flow: str) -> bool:
        """Return whether a flow, of any origin, has a pattern whose transport decides an order."""
        pattern = pattern_of(flow)
        return bool(pattern) and any(pattern_of(each) == pattern for each in self.ordered)

    def of_origin(self, origin: str) -> list[str]:
        """Return the flows of an origin, the default one first."""
        return [origin, *(each.key for each in self._by_origin.get(origin, ()))]

    def intervals_of(self, flow: str) -> tuple[FlowInterval, ...]:
        """Return none for an unknown or default flow."""
        return self._intervals.get(flow, ())

    def put(self, flow: str, intervals: tuple[FlowInterval, ...]) -> bool:
        """Record another origin's flow. Return False if it is known, or over the limit.

        Late frames of an earlier process have earlier intervals.
        """
        known = self._intervals.get(flow)
        if self.is_own(flow) or not intervals:
            return False
        if known is not None and _last_change(intervals) <= _last_change(known):
            return False
        if known is None and len(self._intervals) - len(self.own) >= MAX_FOREIGN_FLOWS:
            return False
        self._intervals[flow] = intervals
        self._sort_flows(origin_of(flow))
        return True

    def _sort_flows(self, origin: str) -> None:
        found = [
            _Flow(key, StreamPattern.parse(pattern_of(key)), intervals)
            for key, intervals in self._intervals.items()
            if origin_of(key) == origin
        ]
        self._by_origin[origin] = sorted(
            found, key=lambda each: precedence(each.pattern), reverse=True
        )

    # ------------------------------------------------------------------ marks

    def since(self, flow: str) -> Mark:
        """Return the mark behind which a flow begins."""
        intervals = self.intervals_of(flow)
        return intervals[0][0] if intervals else _BEFORE_ALL

    def limit(self, flow: str, mark: Mark) -> Mark:
        """Return a mark of the origin's log, at most the end of a closed flow."""
        intervals = self.intervals_of(flow)
        until = intervals[-1][1] if intervals else None
        return mark if until is None else min(mark, until)

    def own_marks(self, mark: Mark) -> dict[str, Mark]:
        """Return the mark of each own flow at a mark of the log; without the default flow."""
        return {flow: self.limit(flow, mark) for flow in self.own}

    def prompt_marks(self, mark: Mark) -> dict[str, Mark]:
        """Return `own_marks` of the flows that are not ordered: delivered with the commit."""
        return {flow: self.limit(flow, mark) for flow in self.own if flow not in self.ordered}

    def delivered_marks(self, mark: Mark, copied: Mapping[str, Mark]) -> dict[str, Mark]:
        """Return `own_marks` as delivered: withheld events count up to the mark in `copied`."""
        found = self.own_marks(mark)
        for flow, intervals in self.withheld.items():
            for since, until in intervals if flow in found else ():
                if until is None or (flow in self.ordered and until == intervals[-1][1]):
                    until = found[flow]
                if since < found[flow] <= until:
                    found[flow] = min(found[flow], max(since, copied.get(flow, since)))
        return found

    def complete_marks(self, marks: Mapping[str, Mark]) -> Mapping[str, Mark]:
        """Add the flows that a position does not name, of origins that it names.

        Its client has no event of them. So their marks lie before their first events, and at or
        before the mark of the default flow.
        """
        added = {
            each.key: min(mark, each.intervals[0][0])
            for origin, mark in marks.items()
            for each in self._by_origin.get(origin, ())
            if each.key not in marks
        }
        return {**marks, **added} if added else marks

    def until_marks(self, marks: Mapping[str, Mark]) -> Mapping[str, Mark]:
        """Add the flows that an end does not name, of origins that it names: its mark is a place
        of the origin's log."""
        added = {
            each.key: self.limit(each.key, mark)
            for origin, mark in marks.items()
            for each in self._by_origin.get(origin, ())
        }
        return {**added, **marks}

    # ------------------------------------------------------------------ events

    def flow_at(self, origin: str, stream: str, mark: Mark) -> str:
        """Return the flow of an event in an origin's log."""
        for each in self._by_origin.get(origin, ()):
            if each.pattern.matches(stream) and is_within_intervals(each.intervals, mark):
                return each.key
        return origin

    def label_own(self, events: Iterable[LoggedEvent]) -> None:
        """Set the flows of own events that were read from this log."""
        for event in events:
            if event.origin == self._origin and event.record:
                event.origin = self.flow_at(event.origin, stream_of(event.record), event.mark)
                if event.origin in self.withheld:
                    intervals = self.withheld[event.origin]
                    event.is_withheld = is_within_intervals(intervals, event.mark)

    def without_copies(self, events: list[LoggedEvent]) -> list[LoggedEvent]:
        """Return the events that the log stores under their own or another origin."""
        if not self.withheld:
            return events
        return [
            event
            for event in events
            if event.is_withheld
            or not is_within_intervals(self.withheld.get(event.origin, ()), event.mark)
        ]

    def select_flow(self, events: Sequence[LoggedEvent], flow: str) -> list[LoggedEvent]:
        """Return the events of one flow among those of its origin's log."""
        origin = origin_of(flow)
        if origin not in self._by_origin:
            return list(events)
        return [
            event
            for event in events
            if not event.record or self.flow_at(origin, stream_of(event.record), event.mark) == flow
        ]


def with_origin(
    events: Sequence[LoggedEvent], origin: str, ordered: Collection[str] = ()
) -> Sequence[LoggedEvent]:
    """Return the events as the log stores them: those of its own flows under its origin, and
    copies of those of `ordered` flows under their flow."""
    prefix = f"{origin}/"
    return [
        relabelled(event, origin)
        if event.origin.startswith(prefix) and (event.is_withheld or event.origin not in ordered)
        else event
        for event in events
    ]


def _last_change(intervals: Sequence[FlowInterval]) -> Mark:
    since, until = intervals[-1]
    return since if until is None else until
