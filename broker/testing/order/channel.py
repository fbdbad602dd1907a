"""Robust P2P of a simulated site with one other: packets arrive once and in order (RCM R29-R32)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, TypeAlias

from broker.transport.order import Message, MessageId

#: Incarnation and number of a stream of packets. A stream without loss has one.
StreamId: TypeAlias = tuple[int, int]


class Hello(NamedTuple):
    """First packet of a connection."""

    incarnation: int
    stream: StreamId
    received: int


class Loss(NamedTuple):
    """Messages up to this one that have not come do not come."""

    last: MessageId


class Data(NamedTuple):
    stream: StreamId
    sequence: int
    packet: object


class Framed(NamedTuple):
    """A packet of a fan-out, with the message whose place it has."""

    data: bytes
    id: MessageId | None


class Channel:
    """Packets are kept until the peer has them. A dropped stream is followed by a new one."""

    def __init__(self, incarnation: int) -> None:
        self.peer_incarnation = 0
        self.received: tuple[StreamId, int] = ((0, 0), 0)
        self._stream: StreamId = (incarnation, 1)
        self._packets: list[object] = []
        self._first = 1  # sequence number of the first kept packet
        self._next = 1  # and of the first one that this connection has not carried
        # Sequence numbers and times of packets that this connection carries.
        self._unacknowledged: deque[tuple[int, float]] = deque()

    def make_hello(self) -> Hello:
        return Hello(self._stream[0], *self.received)

    def accept_hello(self, hello: Hello) -> bool:
        """Return False for an older incarnation of the peer."""
        if hello.incarnation < self.peer_incarnation:
            return False
        if self.peer_incarnation and hello.incarnation != self.peer_incarnation:
            self.drop_packets()
        self.peer_incarnation = hello.incarnation
        if hello.stream == self._stream:
            kept_from = max(self._first, hello.received + 1)
            del self._packets[: kept_from - self._first]
            self._first = kept_from
        self._next = self._first
        self._unacknowledged.clear()
        return True

    def add_packet(self, packet: object) -> None:
        self._packets.append(packet)

    @property
    def stream(self) -> StreamId:
        """The present stream: another one follows a loss."""
        return self._stream

    @property
    def oldest_sent_at(self) -> float | None:
        """The time of the oldest packet that is not acknowledged."""
        return self._unacknowledged[0][1] if self._unacknowledged else None

    def accept_acknowledgement(self, stream: StreamId, received: int) -> None:
        sent = self._unacknowledged
        while sent and stream == self._stream and sent[0][0] <= received:
            sent.popleft()

    def take_unsent(self, now: float) -> list[Data]:
        unsent = self._packets[self._next - self._first :]
        first, self._next = self._next, self._next + len(unsent)
        self._unacknowledged.extend((number, now) for number in range(first, self._next))
        return [Data(self._stream, sequence, each) for sequence, each in enumerate(unsent, first)]

    def make_loss(self, sent: MessageId) -> Loss:
        """Return the loss before the first kept message; `sent` is the last one."""
        kept = (each.id for each in self._packets if isinstance(each, Message | Framed))
        following = sent._replace(number=sent.number + 1)
        first = next((id for id in kept if id is not None), following)
        return Loss(first._replace(number=first.number - 1))

    def drop_packets(self) -> None:
        self._stream = (self._stream[0], self._stream[1] + 1)
        self._packets.clear()
        self._unacknowledged.clear()
        self._first = self._next = 1

    def accept_data(self, data: Data) -> bool:
        """Return False for a repeated packet."""
        stream, sequence = self.received
        if data.stream != stream:
            sequence = 0
        if data.sequence <= sequence:
            return False
        self.received = (data.stream, data.sequence)
        return True
