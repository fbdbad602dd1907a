"""Packets of one other site, in their order, until the node has their events.

The node may hold back an event: events before it are missing, and come from a log first. Then all
later packets of that site wait too, so that the order sees each message in its turn.
"""

from __future__ import annotations

from collections import deque

from broker.errors import ProtocolError
from broker.transport.order import Message, MessageId, Packet

#: Packets, and bytes of payloads; more messages are not accepted, and come from the log of their
#: origin later.
MOST_WAITING = 10_000
MOST_WAITING_BYTES = 16 << 20
#: Seconds that a message waits for lower numbers: they belong to other flows of the site.
NUMBER_PATIENCE = 10.0


class Inbox:
    def __init__(self, *, has_log: bool = True) -> None:
        """Without a log no message waits for lower numbers, and those before the first one are
        missing too."""
        self._has_log = has_log
        self._patience = NUMBER_PATIENCE if has_log else 0.0
        self._packets: deque[Packet] = deque()
        self._bytes = 0
        self._ready: set[MessageId] = set()
        self._next: tuple[int, int] | None = None
        """Incarnation and number of the next message; None before the first one."""
        self._blocked_at: float | None = None
        self._has_loss = False
        self.changes: frozenset[tuple[int, int]] = frozenset()
        """Incarnations and numbers of changes of the sites that count already. None waits for
        these messages, and they are not missing."""

    @property
    def is_full(self) -> bool:
        return len(self._packets) >= MOST_WAITING or self._bytes >= MOST_WAITING_BYTES

    def add_packet(self, packet: Packet) -> None:
        """Raises `ProtocolError` for a flood of packets that are no messages."""
        if len(self._packets) >= 2 * MOST_WAITING:
            raise ProtocolError(f"more than {2 * MOST_WAITING} packets wait for an event")
        self._packets.append(packet)
        if isinstance(packet, Message):
            self._bytes += len(packet.payload)

    def add_ready(self, id: MessageId) -> None:
        """Record that the node has the event of a message, and all before it in its flow."""
        self._ready.add(id)

    def record_loss(self) -> None:
        """Record that messages of the site are in no log any more: none waits for them."""
        self._has_loss = True

    def is_passed(self, id: MessageId) -> bool:
        """Return whether the order has got this message, or a later one."""
        return self._next is not None and (id.incarnation, id.number) < self._next

    def pass_message(self, id: MessageId) -> tuple[int, int] | None:
        """Record that the order gets a message. Return the first and last missing number before
        it, if there are some."""
        missing, following = None, self._skip_changes(self._next)
        if not self._has_log and (following is None or following[0] != id.incarnation):
            following = id.incarnation, 1
        if following is not None and following[0] == id.incarnation and id.number > following[1]:
            missing = following[1], id.number - 1
        self._next = id.incarnation, id.number + 1
        return missing

    def take_ready(self, now: float) -> tuple[list[Packet], list[MessageId]]:
        """Remove and return the packets that the order may get now, and the ids of messages that it
        must not get: it has got later ones.

        The caller calls `pass_message` for each message before the next call.
        """
        taken: list[Packet] = []
        passed: list[MessageId] = []
        following = self._next
        while self._packets:
            packet = self._packets[0]
            if isinstance(packet, Message):
                id = packet.id
                if following is not None and (id.incarnation, id.number) < following:
                    passed.append(id)
                elif self._may_pass(id, following, now):
                    following = id.incarnation, id.number + 1
                    taken.append(packet)
                else:
                    break
                self._bytes -= len(packet.payload)
                self._ready.discard(id)
            else:
                taken.append(packet)
            self._packets.popleft()
            self._blocked_at = None
        if not self._packets:
            self._has_loss = False
        return taken, passed

    def next_timeout(self) -> float | None:
        return None if self._blocked_at is None else self._blocked_at + self._patience

    def _may_pass(self, id: MessageId, following: tuple[int, int] | None, now: float) -> bool:
        if id not in self._ready:
            return False
        if following is None or following[0] != id.incarnation or following[1] == id.number:
            return True
        if self._skip_changes(following) == (id.incarnation, id.number):
            return True
        if self._blocked_at is None:
            self._blocked_at = now
        return self._has_loss or now >= self._blocked_at + self._patience

    def _skip_changes(self, following: tuple[int, int] | None) -> tuple[int, int] | None:
        while following in self.changes and following is not None:
            following = following[0], following[1] + 1
        return following
