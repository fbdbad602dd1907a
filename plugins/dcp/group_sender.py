"""A group of children with the same query, which one IP multicast packet reaches (DCP 4.6).

A member's connection has the sequences, acknowledgements and repairs as without a group: the group
replaces only the first transmission of a range. The connection sends, too, until the member has
answered a packet of the group: then the group *carries* its events. If it answers no more, or lags,
its connection repeats what is not acknowledged, and goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from broker.queue_memory import QueueMemory
from broker.transport.arq.mac import Mac
from plugins.dcp.connection import Connection
from plugins.dcp.control import Group, GroupSequence, SequenceStart, Ungroup
from plugins.dcp.event_range import Description, EventRange
from plugins.dcp.outgoing_sequence import OutgoingSequence
from plugins.dcp.packet import ACKREQ, STREAM
from plugins.dcp.packet_writer import PacketWriter
from plugins.dcp.send_buffer import SendBuffer
from plugins.dcp.settings import DcpSettings

#: Seconds after which the next packet requests an acknowledgement.
_REQUEST_SECONDS: Final = 0.25
#: A member that answers none of so many requests, in so many seconds, does not hear the group.
_MOST_UNANSWERED: Final = 4
_UNREACHABLE_SECONDS: Final = 2.0
#: Seconds after which ranges without events leave alone.
_EMPTY_SECONDS: Final = 1.0
_NEVER: Final = float("-inf")


@attrs.define(eq=False)
class GroupMember:
    connection: Connection
    answers: int
    """Acknowledgements of packets to groups that were seen."""
    announced: int = -1
    """Sequences of the group that it knows; -1: it does not know the group."""
    is_carried: bool = False
    unanswered: int = 0
    asked_since: float | None = None
    """Time of the first request without an answer."""

    def note_packet(self, index: int, an: int, now: float, *, asks: bool) -> None:
        """Count a packet to the group as one of its connection."""
        writer = self.connection.writer
        if self.is_carried:
            writer.sent += 1
        if asks:
            writer.note_asked(STREAM, index, an, now)
            self.unanswered += 1
            if self.asked_since is None:
                self.asked_since = now

    def take_answers(self) -> bool:
        """Return whether it has answered since the last call."""
        answers = self.connection.group_answers
        if answers == self.answers:
            return False
        self.answers, self.unanswered, self.asked_since = answers, 0, None
        return True

    @property
    def unreachable_at(self) -> float | None:
        """Return the time at which it counts as one that does not hear the group."""
        if self.asked_since is None or self.unanswered < _MOST_UNANSWERED:
            return None
        return self.asked_since + _UNREACHABLE_SECONDS


class _GroupWriter(PacketWriter):
    """Requests acknowledgements in time, and notes each packet at all members."""

    def __init__(
        self, group: int, mac: Mac, mtu: int, members: Callable[[], Iterable[GroupMember]]
    ) -> None:
        super().__init__(group, mac, mtu)
        self.progress: dict[int, int] = {}
        """By index: AN up to which packets were written since the last `GroupSender.flush`."""
        self._members = members
        self._asked_at = _NEVER

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
        if now >= self._asked_at + _REQUEST_SECONDS:
            flags |= ACKREQ
        asks = bool(flags & ACKREQ)
        if asks:
            self._asked_at = now
        for member in self._members():
            member.note_packet(index, an, now, asks=asks)
        self.progress[index] = an
        return super().write(flags, an, previous, now, body, index, epoch)


class _SlowestPace:
    """The group sends as its slowest carried member may (`IPace`)."""

    def __init__(self, members: Callable[[], Iterable[GroupMember]]) -> None:
        self._members = members

    def may_send(self, now: float) -> bool:
        return all(each.connection.buffer.pacer.may_send(now) for each in self._carried)

    def record_sent(self, size: int) -> None:
        for each in self._carried:
            each.connection.buffer.pacer.record_sent(size)

    def next_send_at(self) -> float:
        times = [each.connection.buffer.pacer.next_send_at() for each in self._carried]
        return max(times, default=0.0)

    @property
    def _carried(self) -> list[GroupMember]:
        return [each for each in self._members() if each.is_carried]


class GroupSender:
    def __init__(self, id_: int, number: int, key: bytes, settings: DcpSettings) -> None:
        """`number` is that of the group's address, `key` that of the tags."""
        self.id, self.number = id_, number
        self._key = key
        self._settings = settings
        self._members: dict[Connection, GroupMember] = {}
        members = self._members.values
        self._writer = _GroupWriter(id_, Mac(key), settings.mtu, members)
        # The buffers of the members count what waits.
        uncounted = attrs.evolve(settings, memory=QueueMemory())
        self._buffer = SendBuffer(self._writer, _SlowestPace(members), uncounted, lambda: 0)
        self._sequences: list[OutgoingSequence] = []
        """In the order of their indexes."""
        self._range: EventRange | None = None
        self._part: EventRange | None = None
        self._empty_at: float | None = None

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, connection: object) -> bool:
        return connection in self._members

    # ------------------------------------------------------------------ members

    def add(self, connection: Connection) -> None:
        self._members[connection] = GroupMember(connection, connection.group_answers)

    def remove(self, connection: Connection) -> None:
        """Let the connection send what waits."""
        member = self._members.pop(connection, None)
        if member is not None:
            connection.buffer.is_carried = False
            if member.announced >= 0 and not connection.error:
                connection.send_control(Ungroup())

    def announce(self) -> None:
        """Tell the members the group's new sequences."""
        for member in self._members.values():
            if member.announced == len(self._sequences):
                continue
            buffer, starts = member.connection.buffer, list[GroupSequence]()
            for each in self._sequences[max(0, member.announced) :]:
                own = buffer.find(each.description.key)
                if own is not None:
                    start = SequenceStart(own.index, own.description, own.sender.start)
                    starts.append(GroupSequence(each.index, start))
            member.announced = len(self._sequences)
            message = Group(self.id, self.number, self._key, tuple(starts))
            member.connection.send_control(message)

    def take_unreachable(self, now: float) -> list[Connection]:
        """Carry the events of members that have answered, and return those that do not hear the
        group, or lag: their connections repeat what is not acknowledged."""
        most = self._settings.send_bytes // 2
        found: list[Connection] = []
        for connection, member in self._members.items():
            buffer = connection.buffer
            if member.take_answers() and not member.is_carried and not buffer.has_ready:
                member.is_carried = buffer.is_carried = True
            unreachable_at = member.unreachable_at
            is_unreachable = unreachable_at is not None and now >= unreachable_at
            if is_unreachable or (member.is_carried and buffer.sent.bytes > most):
                found.append(connection)
        if not found and self._buffer.waiting_bytes > most:
            # The others do not wait for the slowest one.
            found += self._find_slowest()
        for connection in found:
            if self._members[connection].is_carried:
                connection.buffer.repeat_unacknowledged(now)
        return found

    def _find_slowest(self) -> list[Connection]:
        carried = [each for each, member in self._members.items() if member.is_carried]
        slowest = max(carried, key=lambda each: each.buffer.pacer.next_send_at(), default=None)
        return [] if slowest is None else [slowest]

    # ------------------------------------------------------------------ events

    def append(self, description: Description, range_: EventRange, part: EventRange) -> bool:
        """Take the part of a range with the events for a member, once for all members.

        Return False if it is not that of the other members.
        """
        if range_ is self._range:
            return part is self._part
        buffer = self._buffer
        sequence = buffer.find(description.key)
        if sequence is None:
            sequence = buffer.open(description, range_.previous)
            if sequence is None:
                return False
            # The members learn it by a message.
            sequence.is_known = True
            self._sequences.append(sequence)
        self._range, self._part = range_, part
        buffer.append(sequence, part)
        return True

    def flush(self, now: float) -> list[bytes]:
        """Return the packets that may be sent now."""
        buffer, writer = self._buffer, self._writer
        if self._empty_at is not None and now >= self._empty_at:
            buffer.flush_empty()
        buffer.flush(now)
        if not buffer.has_empty:
            self._empty_at = None
        elif self._empty_at is None or now >= self._empty_at:
            self._empty_at = now + _EMPTY_SECONDS
        for index, an in writer.progress.items():
            # The connections keep what is not acknowledged.
            buffer.acknowledge(index, an)
            key = self._sequences[index - 1].description.key
            for connection, member in self._members.items():
                if member.is_carried:
                    connection.buffer.note_carried(key, an, now)
        writer.progress.clear()
        # The members have them.
        writer.forget_asked()
        return writer.take_packets()

    def next_timeout(self) -> float | None:
        times = [each.unreachable_at for each in self._members.values()]
        times += [self._buffer.next_timeout(), self._empty_at]
        return min([each for each in times if each is not None], default=None)

    def snapshot(self) -> dict[str, object]:
        return {
            "number": self.number,
            "members": len(self._members),
            "carried": sum(each.is_carried for each in self._members.values()),
            "sent": self._writer.sent,
        }
