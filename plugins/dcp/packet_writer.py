"""Packets of one connection: header, tag, count, and requests for acknowledgements."""

from __future__ import annotations

from typing import Final, NamedTuple

from broker.transport.arq.link_mac import IMac
from plugins.dcp.packet import ACKREQ, EXTENDED_BYTES, KEEPALIVE, STREAM, encode_extended

#: Requests whose answer is expected.
_MOST_ASKED: Final = 64


class Asked(NamedTuple):
    """A packet that requested an acknowledgement."""

    sent_at: float
    sent: int
    """Packets sent up to then."""


class PacketWriter:
    def __init__(self, remote_id: int, mac: IMac, mtu: int) -> None:
        self.sent = 0
        """Packets."""
        self.room = mtu - EXTENDED_BYTES - mac.overhead
        """Bytes of a body."""
        self._remote_id = remote_id
        self._mac = mac
        self._outbox: list[bytes] = []
        self._asked: dict[tuple[int, int, int], Asked] = {}

    @property
    def replayed(self) -> int:
        """Packets of the peer that were dropped since they had come before."""
        return self._mac.replayed

    def write(
        self,
        flags: int,
        an: int,
        previous: int,
        now: float,
        body: bytes = b"",
        index: int = 0,
        epoch: int = 0,
    ) -> int:
        """Write a packet, and return its bytes."""
        header = encode_extended(flags, an, previous, self._remote_id, index, epoch)
        data = self._mac.add_tag(header + body)
        self._outbox.append(data)
        self.sent += 1
        if flags & ACKREQ:
            self.note_asked(flags & KEEPALIVE, index, an, now)
        return len(data)

    def note_asked(self, kind: int, index: int, an: int, now: float) -> None:
        """Note a request. `kind` is KEEPALIVE; STREAM for that of a packet to a group; or 0."""
        # Packets with keep-alives come regularly.
        self._mac.rotate(now)
        key = kind, index, an
        # A repeated packet does not take the place of the oldest request.
        self._asked.pop(key, None)
        self._asked[key] = Asked(now, self.sent)
        if len(self._asked) > _MOST_ASKED:
            del self._asked[next(iter(self._asked))]

    def find_asked(self, flags: int, index: int, an: int) -> Asked | None:
        """Return the request that a packet answers, once."""
        return self._asked.pop((flags & (KEEPALIVE | STREAM), index, an), None)

    @property
    def asked_since(self) -> float | None:
        """Return the time of the oldest request without an answer."""
        return next((each.sent_at for each in self._asked.values()), None)

    def forget_asked(self) -> None:
        """Forget the requests: an answer to a later one has come."""
        self._asked.clear()

    def take_packets(self) -> list[bytes]:
        packets, self._outbox = self._outbox, []
        return packets
