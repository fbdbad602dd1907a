"""Senders of a node's own flows: the default one, and those that other transports carry.

This transport announces the ends of the others to their destinations, which request events that do
not arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from broker.cluster.address import Address
from broker.cluster.descriptor import CLEARANCES
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.sender import IsCleared, OriginSender, OutgoingEvent
from broker.event.flow import FlowInterval, is_default_flow
from broker.event.place import Mark


class OwnSenders:
    def __init__(
        self,
        origin: str,
        node: Address,
        newest_mark: Callable[[], Mark],
        is_cleared: IsCleared,
        flows: Mapping[str, Sequence[FlowInterval]],
        end_of_flow: Callable[[str, Mark], Mark],
    ) -> None:
        """`newest_mark` returns the newest own place. `flows` are carried by other transports.
        `end_of_flow` returns the end of one at a mark of the log."""
        self._newest_mark = newest_mark
        self._is_cleared = is_cleared
        self._end_of_flow = end_of_flow
        self.default = OriginSender(origin, node, newest_mark())
        self._senders = {origin: self.default}
        for flow, intervals in flows.items():
            self._senders[flow] = OriginSender(flow, node, self._newest_of(flow))
            self._senders[flow].intervals = intervals

    def __contains__(self, flow: str) -> bool:
        return flow in self._senders

    def __getitem__(self, flow: str) -> OriginSender:
        return self._senders[flow]

    def __iter__(self) -> Iterator[OriginSender]:
        return iter(self._senders.values())

    def set_destinations(
        self, destinations: Iterable[Address], restarted: Collection[Address]
    ) -> None:
        for flow, sender in self._senders.items():
            sender.set_destinations(destinations, self._newest_of(flow), restarted)

    def restart_destination(self, destination: Address) -> None:
        for flow, sender in self._senders.items():
            sender.restart_destination(destination, self._newest_of(flow))

    def start_after(self, mark: Mark) -> None:
        """Start all ranges at a mark of the log: destinations request earlier events."""
        for flow, sender in self._senders.items():
            end = mark if sender is self.default else self._end_of_flow(flow, mark)
            sender.event_frame(end, end, (), self._is_cleared)

    def event_frame(
        self, flow: str, after: Mark, upto: Mark, events: Sequence[OutgoingEvent]
    ) -> Frame | None:
        """Return a frame with the events of (after, upto] of a flow; None without recipients."""
        sender = self._senders[flow]
        if sender is not self.default:
            # Places without an event of the flow may be recorded already.
            after, upto = max(after, sender.sent_upto), self._end_of_flow(flow, upto)
        return sender.event_frame(after, upto, events, self._is_cleared)

    def record_flow_events(
        self,
        flow: str,
        upto: Mark,
        events: Sequence[OutgoingEvent],
        fed: Collection[Address] = (),
    ) -> Frame | None:
        """Record all events of a flow behind the last ones and up to a mark of the log, which its
        transport has sent.

        Return the frame for the destinations that this network feeds with the flow, if any.
        """
        if self._senders[flow].sent_upto >= self._end_of_flow(flow, upto):
            return None
        if not fed:
            self._senders[flow].record_events(
                self._end_of_flow(flow, upto), events, self._is_cleared
            )
            return None
        frame = self.event_frame(flow, (0, 0), upto, events)
        ranges = () if frame is None else enumerate(frame.ranges)
        chosen = {index: CLEARANCES[-1] for index, each in ranges if each.destination in fed}
        return None if frame is None or not chosen else frame.restricted_to(chosen)

    def progress_frames(self) -> list[Frame]:
        """Call once a second."""
        frames = [sender.progress_frame() for sender in self._senders.values()]
        return [frame for frame in frames if frame is not None]

    def _newest_of(self, flow: str) -> Mark:
        newest = self._newest_mark()
        return newest if is_default_flow(flow) else self._end_of_flow(flow, newest)
