"""The place where other transports attach (`broker.event.flow`).

Own committed events of a flow go to `publish_flow`. Received ranges of other nodes' flows come in
through `receive_range`, and are then handled as those of the default transport, which announces the
ends of all flows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from broker.cluster.address import Address
from broker.cluster.driver import ClusterDriver
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame import FrameEvent, Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.cluster.traffic.sender import OutgoingEvent
from broker.errors import BadName, ProtocolError
from broker.event.flow import check_flow, is_default_flow
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.instance import LinkKey

#: Gets all events of a flow in (after, upto], in order, and the links that want each.
PublishFlow: TypeAlias = Callable[
    [str, Mark, Mark, Sequence[LoggedEvent], Sequence[frozenset[LinkKey]]], object
]


class FlowExchange:
    def __init__(
        self, driver: ClusterDriver, event_log: EventLog, remote_interest: RemoteInterest
    ) -> None:
        self._driver = driver
        self._log = event_log
        self._remote_interest = remote_interest
        self._published_upto = event_log.flows.own_marks(event_log.coverage[event_log.origin])
        self.publish_flow: PublishFlow = lambda *_: None
        """Called after the commit."""

    def publish_committed(
        self, events: Sequence[LoggedEvent], matches: Sequence[tuple[int, ...]], upto: Mark
    ) -> None:
        """Publish the events of other flows than the default one, of a commit up to a mark."""
        by_flow: dict[str, list[tuple[LoggedEvent, tuple[int, ...]]]] = {}
        for event, numbers in zip(events, matches, strict=True):
            if event.origin in self._published_upto:
                by_flow.setdefault(event.origin, []).append((event, numbers))
        self.advance_flows(upto, by_flow)
        for flow, found in by_flow.items():
            after, self._published_upto[flow] = self._published_upto[flow], upto
            links = [self._remote_interest.links(numbers) for _, numbers in found]
            self.publish_flow(flow, after, upto, [event for event, _ in found], links)

    def advance_flows(
        self,
        upto: Mark,
        by_flow: dict[str, list[tuple[LoggedEvent, tuple[int, ...]]]] | None = None,
    ) -> None:
        """Move the announced ends of all own flows."""
        traffic, destinations = self._driver.traffic, self._remote_interest.destinations
        for flow in self._published_upto if traffic is not None else ():
            assert traffic is not None
            outgoing = [
                OutgoingEvent(as_frame_event(event), event.level, targets)
                for event, numbers in (by_flow or {}).get(flow, ())
                if (targets := destinations(numbers))
            ]
            traffic.senders.record_flow_events(flow, upto, outgoing)

    def receive_range(
        self,
        flow: str,
        after: Mark,
        upto: Mark,
        events: Sequence[FrameEvent],
        origin_node: Address,
        *,
        is_unfiltered: bool = False,
    ) -> None:
        """Take all events of a flow in (after, upto] that match this node's interest; if
        `is_unfiltered`, all events. `origin_node` serves pages of the flow.

        Raises `BadName` for an invalid or default flow, `ProtocolError` for invalid marks.
        """
        if is_default_flow(check_flow(flow)):
            raise BadName(f"{flow} is a default flow")
        marks = [after, *(event.mark for event in events)]
        if any(one >= other for one, other in pairwise(marks)) or marks[-1] > upto:
            raise ProtocolError(f"the marks of a range of {flow} do not ascend up to its end")
        traffic, state = self._driver.traffic, self._driver.state
        if traffic is None or state is None:
            return
        span = Range(state.address, after, upto, is_unfiltered=is_unfiltered)
        frame = make_page_frame(flow, origin_node, [span], events)
        received = ReceivedRange(span, frame, 0, is_carried=True)
        self._driver.call(traffic.receive_range, received)


def as_frame_event(event: LoggedEvent) -> FrameEvent:
    return FrameEvent(event.mark, event.record, event.document)
