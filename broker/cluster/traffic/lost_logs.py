"""Missing events that this node gives up, and messages of other nodes about lost logs."""

from __future__ import annotations

from typing import Protocol

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


class GoneLogs(Protocol):
    """See `broker.cluster.gone_origins`."""

    def is_gone(self, flow: str) -> bool: ...
    def certificate_of(self, flow: str) -> bytes: ...
    def may_report(self, flow: str) -> bool: ...


class NoGoneLogs:
    """Without signatures."""

    def is_gone(self, flow: str) -> bool:
        return False

    def certificate_of(self, flow: str) -> bytes:
        return b""

    def may_report(self, flow: str) -> bool:
        return True


class LostLogs:
    """Skips missing ranges of one node's receiver, each with the reason of its gap."""

    def __init__(self, state: NetworkState, receiver: Receiver, gone: GoneLogs) -> None:
        self._state = state
        self._receiver = receiver
        self._gone = gone
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
        return self._report(request)

    def answer_for_gone(self, request: PageRequest) -> LogLost | None:
        """Return the message in place of a node that is not reachable and does not come back."""
        is_away = self._state.next_hop(request.target, 0) is None
        return self._report(request) if is_away and self._gone.is_gone(request.origin) else None

    def _report(self, request: PageRequest) -> LogLost | None:
        origin = request.origin
        certificate = self._gone.certificate_of(origin)
        if not certificate and not self._gone.may_report(origin):
            return None
        return LogLost(request.source, self._state.address, MAX_HOPS, origin, None, certificate)

    def receive_report(self, message: LogLost, now: float) -> list[ReceiverEffect]:
        """Skip what another node reports as lost; with a certificate, which is checked, when other
        logs had time to supply it."""
        if message.certificate:
            self._receiver.mark_gone(message.origin)
            return []
        return self._skip(message.origin, message.upto, message.source, LOST, now)

    def skip_expired(self, now: float) -> list[ReceiverEffect]:
        """Skip the ranges without an answer. No other node gets a message about it."""
        effects: list[ReceiverEffect] = []
        for origin, node, is_gone in self._receiver.expired_requests(now, self._gone.is_gone):
            reason = LOST if is_gone else UNREACHABLE
            effects += self._skip(origin, None, node, reason, now)
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
