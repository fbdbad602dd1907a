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

    Messages that were released together are one message here: they would wait for the same. So a
    large batch costs little. A site counts as connected after an exchange of clocks of its own.
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
        self.due: float | None = None
        """Time of the core's next timeout, after the last call of it."""
        self._codec = found.create_codec(sites)

    def release(self, at: Instant) -> list[OrderEffect]:
        """Stamp and release a message for one release of the order."""
        self.core.stamp(1, at)
        return self.core.release([b""], at)

    def receive(self, site: str, data: bytes, at: Instant) -> list[OrderEffect]:
        """Raises `ProtocolError` for malformed bytes."""
        return self.core.receive(site, self._codec.decode(site, data), at)

    def disconnect(self, site: str, at: Instant) -> list[OrderEffect]:
        return self.core.disconnect(site, LinkState.SUSPECTED, at)

    def encode(self, send: Send, size: int) -> tuple[bytes, int]:
        """Return the bytes of packets, and how many the variant would send beside payloads.

        `size` is the number of messages of a release: each further one has a stamp, one higher.
        """
        data = self._codec.encode(send.packets)
        first = send.packets[0]
        if not isinstance(first, Message):
            return data, len(data)
        return data, len(data) - _EMPTY + (0 if first.stamp is None else size - 1)
