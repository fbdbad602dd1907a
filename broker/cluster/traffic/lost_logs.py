"""Events that this node does not wait for any more, and the messages of others about lost logs."""

from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.network_state import NetworkState
from broker.cluster.traffic.frame import MAX_HOPS, Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import LogLost, PageRequest
from broker.cluster.traffic.received_range import ReceivedRange, ReceiverEffect
from broker.cluster.traffic.receiver import Receiver
from broker.cluster.traffic.sender import OriginSender
from broker.event.flow import origin_of
from broker.event.gap_reason import LOST, UNREACHABLE
from broker.event.place import Mark

#: Seconds without a frame of an unknown origin: its disk may return, or a replica be announced.
LOST_REPORT_DELAY = 30.0


class LostLogs:
    """Skips missing ranges of one node's receiver, each with the reason of its gap."""

    def __init__(self, state: NetworkState, receiver: Receiver) -> None:
        self._state = state
        self._receiver = receiver
        self._started_at: float | None = None

    def record_start(self, now: float) -> None:
        """Call this when the map changes: the node has links since the first call."""
        if self._started_at is None:
            self._started_at = now

    def answer_unknown_origin(self, request: PageRequest, now: float) -> LogLost | None:
        """Return the message for a log that this node does not have: it lost its disk, or a
        replica."""
        origin = request.origin
        last_received = max(
            self._started_at or now,
            self._receiver.last_received_at(origin) or now - LOST_REPORT_DELAY,
        )
        node = self._state.map.node_of_origin(origin_of(origin))
        if now - last_received < LOST_REPORT_DELAY or node:
            return None
        return LogLost(request.source, self._state.address, MAX_HOPS, origin, None)

    def skip_reported(self, message: LogLost, now: float) -> list[ReceiverEffect]:
        """Skip what another node reports as lost."""
        return self._skip(message.origin, message.upto, message.source, LOST, now)

    def skip_expired(self, now: float) -> list[ReceiverEffect]:
        """Skip the ranges without an answer. Other nodes do not hear of it."""
        effects: list[ReceiverEffect] = []
        for origin, node in self._receiver.expired_requests(now):
            effects += self._skip(origin, None, node, UNREACHABLE, now)
        return effects

    def skip_range(
        self, origin: str, after: Mark, upto: Mark, reason: str, now: float
    ) -> list[ReceiverEffect]:
        own = self._state.address
        span = Range(own, after, upto, unavailable_upto=upto)
        received = ReceivedRange(span, _empty_frame(origin, own, span), 0, reason)
        return self._receiver.receive_range(received, now)

    def _skip(
        self, origin: str, upto: Mark | None, node: Address, reason: str, now: float
    ) -> list[ReceiverEffect]:
        empty_frame = _empty_frame(origin, node, Range(self._state.address, (0, 0), (0, 0)))
        return self._receiver.skip_lost_range(origin, upto, node, empty_frame, reason, now)


def _empty_frame(origin: str, node: Address, span: Range) -> Frame:
    return OriginSender(origin, node, (0, 0)).make_frame([span], [], [], [])
