"""The place where stream transports attach to the network (`broker.event.flow`).

Own committed events of a flow go to `publish_flow`. Ranges of other nodes' flows that a transport
received come in through `receive_range`, and are then handled as those in frames. The network
announces the ends of all flows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.carried_event import as_carried_event
from broker.cluster.driver import ClusterDriver
from broker.cluster.network_state import NetworkState
from broker.cluster.remote_interest import Destination, RemoteInterest
from broker.cluster.replicas.page_frame import make_local_frame
from broker.cluster.stack_tables import Disagreement
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.cluster.traffic.sender import OutgoingEvent
from broker.errors import BadName, ProtocolError
from broker.event.flow import check_flow, is_default_flow, pattern_of
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import DroppedCount

#: Gets a flow, a range (after, upto] of it, its events in order, and the targets of each. Of the
#: default flow it gets the events with a target, of others all events.
PublishFlow: TypeAlias = Callable[
    [str, Mark, Mark, Sequence[CarriedEvent], Sequence[frozenset[Destination]]], object
]
#: Events with their matching subscriptions.
_Matched: TypeAlias = list[tuple[CarriedEvent, tuple[int, ...]]]


class FlowExchange:
    log = Logger()

    def __init__(
        self, driver: ClusterDriver, event_log: EventLog, remote_interest: RemoteInterest
    ) -> None:
        self._driver = driver
        self._log = event_log
        self._remote_interest = remote_interest
        self._published_upto: dict[str, Mark] = {}
        self.start_after(event_log.coverage[event_log.origin])
        self.publish_flow: PublishFlow = lambda *_: None
        """Called after the commit."""
        self.fed_patterns: set[str] = set()
        """Carrying patterns whose flows this network feeds to this node."""
        self.on_disagreement: Callable[[Collection[StreamPattern]], object] = lambda _: None
        """Called with the patterns whose streams other nodes carry differently."""
        self._disagreeing: set[StreamPattern] = set()
        self._disagreements: frozenset[Disagreement] = frozenset()
        self._reported: frozenset[Disagreement] = frozenset()

    def start_after(self, mark: Mark) -> None:
        """Publish all flows behind a mark: their earlier events are lost, or only in pages."""
        self._published_upto = {self._log.origin: mark, **self._log.flows.own_marks(mark)}

    def own_cuts(self) -> list[tuple[str, int, int]]:
        """Return the newest own place of each own flow, durable or not."""
        end = self._log.own_end
        flows = self._log.flows.own_marks(end)
        return [(self._log.origin, *end), *((flow, *mark) for flow, mark in flows.items())]

    def publish_committed(
        self, events: Sequence[LoggedEvent], matches: Sequence[tuple[int, ...]]
    ) -> None:
        """Publish the events of a commit by their flows.

        Call it without a cluster, too: later ranges must not claim these places.
        """
        if not events:
            return
        origin, upto = self._log.origin, events[-1].mark
        targets_of = self._remote_interest.targets
        default: list[CarriedEvent] = []
        default_targets: list[frozenset[Destination]] = []
        by_flow: dict[str, _Matched] = {}
        for event, numbers in zip(events, matches, strict=True):
            if event.origin != origin:
                if event.origin in self._published_upto:
                    by_flow.setdefault(event.origin, []).append((as_carried_event(event), numbers))
            elif targets := targets_of(numbers):
                default.append(as_carried_event(event))
                default_targets.append(targets)
        for flow, found in by_flow.items():
            carried = [event for event, _ in found]
            self._publish(flow, upto, carried, [targets_of(numbers) for _, numbers in found])
        if len(self._published_upto) > 1:
            self._advance_flows(upto, by_flow)
        self._publish(origin, upto, default, default_targets)

    def _publish(
        self,
        flow: str,
        upto: Mark,
        events: Sequence[CarriedEvent],
        targets: Sequence[frozenset[Destination]],
    ) -> None:
        after, self._published_upto[flow] = self._published_upto[flow], upto
        self.publish_flow(flow, after, upto, events, targets)

    def _advance_flows(
        self,
        upto: Mark,
        by_flow: Mapping[str, _Matched],
    ) -> None:
        """Move the announced ends of the own flows besides the default one.

        Events that this network carried for an instance of its transport are not sent again.
        """
        traffic, state = self._driver.traffic, self._driver.state
        if traffic is None or state is None:
            return
        destinations = self._remote_interest.destinations
        for flow in self._published_upto:
            if flow == self._log.origin:
                continue
            outgoing = [
                OutgoingEvent(event, event.level, targets)
                for event, numbers in by_flow.get(flow, ())
                if (targets := destinations(numbers))
            ]
            fed = state.stacks.fed_destinations(pattern_of(flow), state.destination_of)
            frame = traffic.senders.record_flow_events(flow, upto, outgoing, fed)
            if frame is not None:
                self._driver.apply_effects(traffic.send_frame(frame))

    def request_feed(self, patterns: Collection[str]) -> None:
        """Let the origins of these flows send their events to this node in frames too."""
        self.fed_patterns |= set(patterns)
        if self._driver.state is not None:
            self._driver.call(self._driver.state.request_feed, self.fed_patterns)

    def report_disagreements(self, state: NetworkState) -> None:
        """Log new disagreements about stacks. Call each second."""
        found = frozenset(state.stacks.find_disagreements(state.map.members()))
        # A new node's tables do not come all at once.
        lasting = found & self._disagreements
        self._disagreements = found
        for _, sentence in sorted(lasting - self._reported):
            self.log.warn("nodes disagree: {sentence}", sentence=sentence)
        self._disagreeing = set(_parse_patterns(each.pattern for each in lasting))
        if lasting - self._reported:
            self.on_disagreement(self._disagreeing)
        self._reported = lasting | self._reported & found

    def is_agreed(self, patterns: Sequence[str]) -> bool:
        """Return whether no known node carries streams of these patterns differently."""
        own = [StreamPattern.parse(each) for each in patterns] if self._disagreeing else ()
        return not any(one.overlaps(other) for one in own for other in self._disagreeing)

    def receive_range(
        self,
        flow: str,
        after: Mark,
        upto: Mark,
        events: Sequence[CarriedEvent],
        origin_node: Address,
        *,
        is_unfiltered: bool = False,
        dropped: Sequence[DroppedCount] = (),
    ) -> None:
        """Take all events of a flow in (after, upto] that match this node's interest; if
        `is_unfiltered`, all events. `origin_node` serves pages of the flow.

        With `dropped` queue policies dropped them all. If interest needs them by now, they come
        from the log.

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
        if dropped and self._driver.needs_all(flow):
            return
        span = Range(state.address, after, upto, is_unfiltered=is_unfiltered)
        if dropped:
            span = span._replace(unavailable_upto=upto, dropped=tuple(dropped))
        frame = make_local_frame(flow, origin_node, span, events)
        received = ReceivedRange(
            *(span, frame, 0), is_carried=True, is_in_order=self._driver.ordered.orders(flow)
        )
        self._driver.call(traffic.receive_range, received)


def _parse_patterns(texts: Iterable[str]) -> Iterator[StreamPattern]:
    """Yield the patterns of other nodes that are some."""
    for text in texts:
        try:
            yield StreamPattern.parse(text)
        except BadName:
            continue
