"""Two connection cores, joined by a pipe that loses packets, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Final

from broker.streams.contract import CarriedEvent
from broker.transport.arq.mac import Mac
from plugins.dcp.connection import Connection
from plugins.dcp.control import ControlMessage, SequenceStart
from plugins.dcp.event_range import Description, EventRange, SequenceKey
from plugins.dcp.outgoing_sequence import OutgoingSequence
from plugins.dcp.packet import Packet, decode
from plugins.dcp.receiver import SequenceReceiver
from plugins.dcp.settings import DcpSettings

DESCRIPTION: Final = Description("0a/ops.>", 1, "n1")
KEY: Final = DESCRIPTION.key
MAC: Final = Mac(b"key of the connection")
#: Rounds at one time: more are a loop.
_MOST_ROUNDS: Final = 1_000


def make_event(an: int, document: bytes = b"<e/>", level: int = 0) -> CarriedEvent:
    return CarriedEvent((DESCRIPTION.epoch, an), b"r", document, level)


def make_range(previous: int, upto: int, *ans: int, document: bytes = b"<e/>") -> EventRange:
    return EventRange.of_events(previous, upto, [make_event(an, document) for an in ans])


class Owner:
    """Owner of connections: stores everything that comes, and requests missing ranges."""

    def __init__(self, settings: DcpSettings) -> None:
        self.opened: list[SequenceStart] = []
        self.messages: list[ControlMessage] = []
        self.unavailable: list[tuple[SequenceKey, int, int]] = []
        self.events: list[CarriedEvent] = []
        """Events in order, each once."""
        self.receivers: dict[SequenceKey, SequenceReceiver[EventRange]] = {}
        self.connected_to: list[Connection] = []
        self.disconnected_from: list[Connection] = []
        self.failed_dials: list[Hashable] = []
        self._settings = settings

    def sequence_opened(self, connection: Connection, start: SequenceStart, now: float) -> None:
        self.opened.append(start)
        receiver = SequenceReceiver[EventRange](
            {connection: connection.path}, self._settings.receiver
        )
        self.receivers[start.description.key] = receiver
        receiver.set_parent(connection, start.an, 0, now)
        self._deliver(receiver.begin(start.an, now))

    def range_received(
        self,
        connection: Connection,
        description: Description,
        range_: EventRange,
        now: float,
        *,
        is_repeated: bool,
    ) -> None:
        receiver = self.receivers[description.key]
        self._deliver(receiver.receive(connection, range_, now, is_repeated=is_repeated))

    def end_received(self, connection: Connection, key: SequenceKey, an: int, now: float) -> None:
        self._deliver(self.receivers[key].receive_end(connection, an, now))

    def part_received(
        self, connection: Connection, key: SequenceKey, previous: int, upto: int, now: float
    ) -> None:
        self.receivers[key].note_part(previous, upto, now)

    def unavailable_received(
        self, connection: Connection, key: SequenceKey, after: int, upto: int, now: float
    ) -> None:
        self.unavailable.append((key, after, upto))
        self._deliver(self.receivers[key].receive_unavailable(connection, after, upto, now))

    def control_received(self, connection: Connection, message: ControlMessage, now: float) -> None:
        self.messages.append(message)

    def current_of(self, key: SequenceKey) -> int | None:
        receiver = self.receivers.get(key)
        return None if receiver is None else receiver.current

    def acknowledged(self, connection: Connection, key: SequenceKey) -> None:
        """Do nothing."""

    def connected(self, connection: Connection, now: float) -> None:
        self.connected_to.append(connection)

    def disconnected(self, connection: Connection, now: float) -> None:
        self.disconnected_from.append(connection)

    def dial_failed(self, peer: Hashable, now: float) -> None:
        self.failed_dials.append(peer)

    def _deliver(self, ranges: object) -> None:
        assert isinstance(ranges, list | tuple)
        for each in ranges:
            self.events += each.events

    @property
    def ans(self) -> list[int]:
        return [event.mark[1] for event in self.events]

    def next_timeouts(self) -> list[float]:
        times = [each.next_timeout() for each in self.receivers.values()]
        return [each for each in times if each is not None]

    def handle_timeout(self, connection: Connection, now: float) -> None:
        for key, receiver in self.receivers.items():
            ranges, nack = receiver.handle_timeout(now)
            self._deliver(ranges)
            if nack is not None:
                connection.send_nack(key, nack, now)


class Pipe:
    """A child and a parent. Packets between them are lost, and come out of order."""

    def __init__(
        self,
        settings: DcpSettings | None = None,
        *,
        seed: int = 0,
        loss: float = 0.0,
        delay: float = 0.01,
        jitter: float = 0.0,
    ) -> None:
        settings = settings or DcpSettings()
        self.now = 0.0
        self.child_owner, self.parent_owner = Owner(settings), Owner(settings)
        self.child = Connection(
            *("parent", (1, 2), MAC, settings, self.child_owner, 0.0), is_dialled=True
        )
        self.parent = Connection(
            *("child", (2, 1), MAC, settings, self.parent_owner, 0.0), is_dialled=False
        )
        self.drops: Callable[[Connection, Packet], bool] = lambda source, packet: False
        """Returns True for further packets of an end that are lost."""
        self.carried: list[tuple[Connection, bytes]] = []
        """All packets that were sent, each with its receiver."""
        self._random = Random(seed)
        self._loss, self._delay, self._jitter = loss, delay, jitter
        self._flying: list[tuple[float, int, Connection, bytes]] = []
        self._numbers = count()

    def open_sequence(self, start: int = 0, description: Description = DESCRIPTION) -> None:
        assert self.parent.buffer.open(description, start) is not None

    @property
    def sequence(self) -> OutgoingSequence:
        """The sequence at the parent."""
        found = self.parent.buffer.find(KEY)
        assert found is not None
        return found

    def append(self, range_: EventRange) -> None:
        self.parent.buffer.append(self.sequence, range_)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end, rounds = self.now + seconds, 0
        while (due := self._flush_and_find_due()) <= end:
            rounds = 0 if due > self.now else rounds + 1
            assert rounds < _MOST_ROUNDS, f"no progress at {self.now}"
            self.now = max(self.now, due)
            while self._flying and self._flying[0][0] <= self.now:
                _, _, receiver, data = heappop(self._flying)
                receiver.receive(data, self.now)
            for connection, owner in self._ends:
                if not connection.error:
                    connection.handle_timeout(self.now)
                    owner.handle_timeout(connection, self.now)
        self.now = end

    @property
    def _ends(self) -> list[tuple[Connection, Owner]]:
        return [(self.child, self.child_owner), (self.parent, self.parent_owner)]

    def _flush_and_find_due(self) -> float:
        times = [each[0] for each in self._flying[:1]]
        for connection, owner in self._ends:
            other = self.parent if connection is self.child else self.child
            for data in connection.flush(self.now):
                self._carry(connection, other, data)
            if not connection.error:
                times += [connection.next_timeout(), *owner.next_timeouts()]
        times += [each[0] for each in self._flying[:1]]
        return min(times, default=float("inf"))

    def _carry(self, source: Connection, receiver: Connection, data: bytes) -> None:
        self.carried.append((receiver, data))
        if self._random.random() < self._loss or self.drops(source, read(data)):
            return
        at = self.now + self._delay + self._random.uniform(0.0, self._jitter)
        heappush(self._flying, (at, next(self._numbers), receiver, data))


def read(data: bytes) -> Packet:
    """Return a packet that an end has written."""
    contents = MAC.remove_tag(data)
    assert contents is not None
    return decode(contents)
