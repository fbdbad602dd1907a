"""The order at one site, above its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.errors import ProtocolError
from broker.transport.monitor import ILinkOwner
from broker.transport.order import Instant, IOrderCore, IPacketCodec, OrderEffect, Packet
from broker.transport.view import LinkState

_CLOCK_BYTES = 8


class OrderEnd:
    """A core with the clocks of its site."""

    def __init__(
        self, core: IOrderCore, codec: IPacketCodec, read_clock: Callable[[float], int]
    ) -> None:
        self.core = core
        self.read_clock = read_clock
        self._codec = codec

    def stamp(self, now: float) -> None:
        self.core.stamp(1, self._instant(now))

    def release(self, payload: bytes, now: float) -> Sequence[OrderEffect]:
        return self.core.release([payload], self._instant(now))

    def receive(self, site: str, data: Sequence[bytes], now: float) -> Sequence[OrderEffect]:
        """Raises `ProtocolError`."""
        packets = [packet for each in data for packet in self._codec.decode(site, each)]
        return self.core.receive(site, packets, self._instant(now))

    def encode(self, packets: Sequence[Packet]) -> bytes:
        return self._codec.encode(packets)

    def disconnect(self, site: str, state: LinkState, now: float) -> Sequence[OrderEffect]:
        return self.core.disconnect(site, state, self._instant(now))

    def connect(self, site: str, answer: int, now: float) -> Sequence[OrderEffect] | None:
        return self.core.connect(site, answer, self._instant(now))

    def make_offer(self, site: str, now: float) -> int:
        return self.core.offer_clock(site, self._instant(now))

    def answer_offer(self, site: str, offer: int, now: float) -> int | None:
        return self.core.answer_clock(site, offer, self._instant(now))

    def handle_timeout(self, now: float) -> Sequence[OrderEffect]:
        due = self.core.next_timeout()
        is_due = due is not None and due <= now
        return self.core.handle_timeout(self._instant(now)) if is_due else ()

    def next_timeout(self) -> float | None:
        return self.core.next_timeout()

    def _instant(self, now: float) -> Instant:
        return Instant(now, self.read_clock(now))


@implementer(ILinkOwner)
class ClockOwner:
    """Owner of one link: it exchanges the clocks of the cores, as the `rcm` transport does."""

    def __init__(
        self,
        end: OrderEnd,
        peer: str,
        connected: Callable[[str, Sequence[OrderEffect]], object],
    ) -> None:
        """`connected` gets the effects of a connection."""
        self.read_site_clock = end.read_clock
        self._end = end
        self._peer = peer
        self._connected = connected

    def make_offer(self, now: float) -> bytes:
        return _encode(self._end.make_offer(self._peer, now))

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        answer = self._end.answer_offer(self._peer, _decode(offer), now)
        return None if answer is None else _encode(answer)

    def accept_answer(self, answer: bytes, now: float) -> bool:
        effects = self._end.connect(self._peer, _decode(answer), now)
        if effects is None:
            return False
        self._connected(self._peer, effects)
        return True


def _encode(clock: int) -> bytes:
    return clock.to_bytes(_CLOCK_BYTES, "big")


def _decode(data: bytes) -> int:
    if len(data) != _CLOCK_BYTES:
        raise ProtocolError("a clock has 8 bytes")
    return int.from_bytes(data, "big")
