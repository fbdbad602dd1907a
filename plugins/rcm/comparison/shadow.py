"""A compared variant at one site: a core of its own, whose deliveries are only recorded."""

from __future__ import annotations

from collections.abc import Sequence

from broker.transport.order import (
    VARIANTS,
    Instant,
    Message,
    OrderEffect,
    OrderSettings,
    Send,
)
from broker.transport.view import LinkState

#: Bytes of an empty payload in a packet.
_EMPTY = 2
#: Microseconds to a shift of the site clock: floors of cores whose clocks end with a process. A new
#: process begins above earlier ones, unless these had a message each ms, or an epoch each minute.
FLOOR_SHIFTS = {"logical": 10, "sequencer": 26}
#: Of what waits in a core, with `packet.MESSAGE_COST` for each message.
MOST_WAITING_BYTES = 16 << 20
MOST_HISTORY = 2_000


class Shadow:
    """The comparison sends and suspects for it; nothing of it reaches the order.

    A site counts as connected here after an exchange of clocks of its own.
    """

    def __init__(
        self,
        variant: str,
        site: str,
        incarnation: int,
        sites: Sequence[str],
        settings: OrderSettings,
        site_clock: int,
    ) -> None:
        found = VARIANTS[variant]
        shift = FLOOR_SHIFTS.get(variant)
        floor = 0 if shift is None else site_clock >> shift
        self.variant = variant
        self.core = found.create_core(site, incarnation, settings, floor)
        self._codec = found.create_codec(sites)

    def release(self, count: int, at: Instant) -> list[OrderEffect]:
        """Stamp and release messages, with the numbers that the order has given them."""
        self.core.stamp(count, at)
        return self.core.release([b""] * count, at)

    def receive(self, site: str, data: bytes, at: Instant) -> list[OrderEffect]:
        """Raises `ProtocolError` for malformed bytes."""
        return self.core.receive(site, self._codec.decode(site, data), at)

    def disconnect(self, site: str, at: Instant) -> list[OrderEffect]:
        return self.core.disconnect(site, LinkState.SUSPECTED, at)

    def encode(self, send: Send) -> tuple[bytes, int]:
        """Return the bytes of packets, and how many are not of payloads."""
        data = self._codec.encode(send.packets)
        messages = len(send.packets) if isinstance(send.packets[0], Message) else 0
        return data, len(data) - _EMPTY * messages
