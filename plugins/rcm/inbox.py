"""Messages and runs of one other site, in their order, until the node has their events.

The node may hold back an event: events before it are missing, and come from a log first. Then all
later packets of that site wait too, so that the order sees each message in its turn. Messages whose
events came from a log go before packets with higher numbers. A run has the id of its first message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush

from broker.errors import ProtocolError
from broker.transport.order import Message, MessageId, Packet

#: Packets, and bytes of payloads; more messages are not accepted, and come from the log of their
#: origin later.
MOST_WAITING = 10_000
MOST_WAITING_BYTES = 16 << 20
#: Seconds that a message waits for lower numbers, which belong to other flows of the site.
NUMBER_PATIENCE = 25.0
#: Seconds between two looks whether other flows have lower numbers.
POLL = 0.25


class Inbox:
    def __init__(
        self, has_all_before: Callable[[MessageId], bool], *, has_log: bool = True
    ) -> None:
        """`has_all_before` returns whether the node has all events of the site's flows that were
        committed before a message, as far as any log has them. Without a log, messages before the
        first one are missing too."""
        self._has_all_before = has_all_before
        self._has_log = has_log
        self._packets: deque[Packet] = deque()
        self._bytes = 0
        self._recovered: list[tuple[MessageId, Message]] = []
        """Messages whose events came from a log: a heap."""
        self._ready: dict[MessageId, float] = {}
        """Messages whose events the node has, with the times since when."""
        self._next: tuple[int, int] | None = None
        """Incarnation and number of the next message; None before the first one."""
        self._look_at: float | None = None
        self.changes: frozenset[tuple[int, int]] = frozenset()
        """Incarnations and numbers of changes of the sites that count already. None waits for
        these messages, and they are not missing."""

    @property
    def is_full(self) -> bool:
        return len(self._packets) >= MOST_WAITING or self._bytes >= MOST_WAITING_BYTES

    @property
    def is_waiting(self) -> bool:
        """True if messages wait here."""
        return bool(self._packets or self._recovered)

    def add_packet(self, packet: Packet) -> None:
        """Raises `ProtocolError` for a flood of packets that are no messages."""
        if len(self._packets) >= 2 * MOST_WAITING:
            raise ProtocolError(f"more than {2 * MOST_WAITING} packets wait for an event")
        self._packets.append(packet)
        if isinstance(packet, Message):
            self._bytes += len(packet.payload)

    def add_recovered(self, message: Message, now: float) -> None:
        """Add a message whose event the node has from a log. The node bounds their number."""
        heappush(self._recovered, (message.id, message))
        self._ready[message.id] = now

    def add_ready(self, id: MessageId, now: float) -> None:
        """Record that the node has the event of a message, and all before it in its flow."""
        self._ready[id] = now

    def is_passed(self, id: MessageId) -> bool:
        """Return whether the order has got this message, or a later one."""
        return self._next is not None and (id.incarnation, id.number) < self._next

    def has_event(self, id: MessageId) -> bool:
        """Return whether the event of a message has come from a log, or the order has got it."""
        return self.is_passed(id) or id in self._ready

    def find_new(self, message: Message) -> list[Message]:
        """Return the parts of a message or run whose events have not come from a log, and which the
        order has not got."""
        if message.length == 1 or not (self._recovered or self.is_passed(message.id)):
            return [] if self.has_event(message.id) else [message]
        new: list[Message] = []
        first, rest = message.cut(1)
        while True:
            if not self.has_event(first.id):
                if new and new[-1].id.number + new[-1].length == first.id.number:
                    new[-1] = new[-1]._replace(length=new[-1].length + 1)
                else:
                    new.append(first)
            if not rest.length:
                return new
            first, rest = rest.cut(1)

    def cut_run(self, id: MessageId, count: int) -> None:
        """Let the first messages of a waiting run, and the others, be two runs."""
        for index, packet in enumerate(self._packets):
            if isinstance(packet, Message) and packet.id == id:
                self._packets[index], rest = packet.cut(count)
                self._packets.insert(index + 1, rest)
                return

    def pass_message(self, id: MessageId, count: int = 1) -> tuple[int, int] | None:
        """Record that the order gets a message, or a run. Return the first and last missing number
        before it, if there are some."""
        missing = self.find_missing(id)
        self._next = id.incarnation, id.number + count
        return missing

    def find_missing(self, id: MessageId) -> tuple[int, int] | None:
        """Return the first and last number before a message that the order has not got."""
        if self._next is None and self._has_log:
            return None
        incarnation, _ = self._next or (0, 0)
        first = self._expected(id, self._next)
        return (
            (first, id.number - 1) if incarnation <= id.incarnation and first < id.number else None
        )

    def take_ready(self, now: float) -> tuple[list[Packet], list[Message]]:
        """Remove and return the packets that the order may get now, and the messages that it must
        not get: it has got later ones.

        The caller calls `pass_message` for each message before the next call.
        """
        taken: list[Packet] = []
        passed: list[Message] = []
        following = self._next
        self._look_at = None
        packets, recovered = self._packets, self._recovered
        while packets or recovered:
            packet = packets[0] if packets else recovered[0][1]
            if not isinstance(packet, Message):
                taken.append(packets.popleft())
                continue
            id = packet.id
            is_recovered = bool(recovered) and recovered[0][0] <= id
            if is_recovered:
                id, packet = recovered[0]
            if following is not None and (id.incarnation, id.number) < following:
                if (id.incarnation, packet.last) >= following:
                    self._cut_passed(packet, following[1] - id.number)
                    packet = self._packets[0]
                    assert isinstance(packet, Message)
                passed.append(packet)
            elif self._may_pass(id, following, now):
                following = id.incarnation, id.number + packet.length
                taken.append(packet)
            else:
                break
            self._ready.pop(id, None)
            if is_recovered:
                heappop(recovered)
            else:
                self._bytes -= len(packet.payload)
                packets.popleft()
        return taken, passed

    def _cut_passed(self, run: Message, count: int) -> None:
        """Cut the first run in two, of which the order must not get the first one."""
        self.cut_run(run.id, count)
        if run.id in self._ready:
            self._ready[run.id.after(count)] = self._ready[run.id]

    def next_timeout(self) -> float | None:
        return self._look_at

    def _may_pass(self, id: MessageId, following: tuple[int, int] | None, now: float) -> bool:
        since = self._ready.get(id)
        if since is None:
            return False
        if following is None:
            return True
        is_next = self._expected(id, following) == id.number
        if is_next or now >= since + NUMBER_PATIENCE or self._has_all_before(id):
            return True
        self._look_at = now + POLL
        return False

    def _expected(self, id: MessageId, following: tuple[int, int] | None) -> int:
        """Return the number of the next message of an incarnation."""
        number = 1
        if following is not None and following[0] == id.incarnation:
            number = following[1]
        while (id.incarnation, number) in self.changes:
            number += 1
        return number
