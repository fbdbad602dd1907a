"""All that one connection has to send: its control stream, and sequences for a child (DCP D47-D51).

The pace of the connection decides when. Control messages leave first, then repeated ranges,
then the sequences in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from broker.queue_memory import HeldBytes
from broker.streams.queue_policy import BLOCK, Admission, IQueuePolicy
from plugins.dcp.control import MOST_SEQUENCES, SequenceStart, encode_message
from plugins.dcp.event_range import Description, EventRange, SequenceKey, StreamRange
from plugins.dcp.feedback import MOST_ENDS
from plugins.dcp.incoming_sequences import encode_opening
from plugins.dcp.outgoing_sequence import OutgoingSequence
from plugins.dcp.pace import IPace
from plugins.dcp.packet import ACKREQ, NACK, RETX, STREAM, SYN
from plugins.dcp.packet_writer import PacketWriter
from plugins.dcp.parts import MOST_RANGE_BYTES, MissingParts, split_parts
from plugins.dcp.receiver import Nack
from plugins.dcp.sender import Sent, SequenceSender, Unavailable
from plugins.dcp.sent_ranges import SentRanges
from plugins.dcp.settings import DcpSettings

EVENTS: Final = b"\0"
PART: Final = b"\1"
CONTROL_INDEX: Final = 0
#: Packets of one sequence before another one has its turn.
_TURN: Final = 16


def _make_stream_range(previous: int, upto: int) -> StreamRange:
    raise AssertionError("a stream has no ranges without bytes")


class SendBuffer:
    """Sequences of one connection, in turn, within its pace and its bounds."""

    def __init__(
        self,
        writer: PacketWriter,
        pacer: IPace,
        settings: DcpSettings,
        query_epoch: Callable[[], int],
    ) -> None:
        """`query_epoch` returns the epoch of the child's query that is in force."""
        self.control = SequenceSender[StreamRange](0, _make_stream_range)
        self._has_grown = False
        self.policy: IQueuePolicy = BLOCK
        """For events that the child is too slow for."""
        self.has_empty = False
        """True if ranges without events wait."""
        self.repaired = 0
        """Ranges sent again."""
        self.dropped_bytes = 0
        """Of events that did not fit into the buffer, or got too old."""
        self.refused = 0
        """Sequences beyond `MOST_SEQUENCES`, or with a description that is too long."""
        self.lagging_since: float | None = None
        """Since then the child is behind by more than the buffer."""
        self._writer = writer
        self.pacer = pacer
        self.is_carried = False
        """True while a group sends the waiting ranges (`plugins.dcp.group_sender`)."""
        self._settings = settings
        self._query_epoch = query_epoch
        self._by_key: dict[SequenceKey, OutgoingSequence] = {}
        self._by_index: dict[int, OutgoingSequence] = {}
        self._ready: dict[int, OutgoingSequence] = {}
        """Sequences with waiting ranges, in turn."""
        self._repairs: deque[tuple[int, Sent[Any] | Unavailable, Sequence[int]]] = deque()
        self._parts: deque[tuple[int, EventRange, bytes, int]] = deque()
        """Parts that wait: index and range, body and flags."""
        self.sent = SentRanges()
        """Those that the child has not acknowledged."""
        self.waiting_bytes = 0
        self.held = HeldBytes(settings.memory)
        """Bytes that wait, or are not acknowledged, by the last flush."""
        self._until_ackreq = settings.ack_every

    def __iter__(self) -> Iterator[OutgoingSequence]:
        return iter(self._by_key.values())

    # ------------------------------------------------------------------ sequences

    def find(self, key: SequenceKey) -> OutgoingSequence | None:
        return self._by_key.get(key)

    def open(self, description: Description, start: int) -> OutgoingSequence | None:
        """Return a sequence for the child, whose first range begins at `start`.

        None: the connection can not have it.
        """
        found = self._by_key.get(description.key)
        if found is not None:
            return found
        if len(self._by_key) >= MOST_SEQUENCES:
            self.refused += 1
            return None
        for each in self._by_key.values():
            if each.description.flow == description.flow:
                # The end of the earlier epoch comes first.
                each.sender.flush_empty()
                self._changed(each, each.sender.waiting_bytes)
        index = len(self._by_key) + 1
        sender = SequenceSender[EventRange](start, EventRange)
        opening = encode_opening(encode_message(SequenceStart(index, description, start)))
        if len(opening) > self._writer.room // 2:
            self.refused += 1
            return None
        found = OutgoingSequence(index, description, sender, opening)
        self._by_key[description.key] = self._by_index[index] = found
        return found

    def take_has_grown(self) -> bool:
        """Return True if ranges were added since the last call, with events or without."""
        has_grown, self._has_grown = self._has_grown, False
        return has_grown

    def append(self, sequence: OutgoingSequence, range_: EventRange) -> None:
        self._has_grown = True
        self.has_empty |= not range_.size
        sender = sequence.sender
        before = sender.waiting_bytes
        # A blocked queue takes all: `_keep_bounds` drops what is too much.
        policy = None if self.policy is BLOCK else self.policy
        for piece in range_.pieces(self._writer.room - len(EVENTS)):
            size = piece.size
            if size > MOST_RANGE_BYTES:
                self.dropped_bytes += size
                sender.pass_missing(piece.upto)
            elif policy is None:
                sender.append(piece)
            else:
                admission = policy.admit(self, size)
                is_dropped = admission is Admission.DROPPED and size > 0
                sender.append(piece.without_events() if is_dropped else piece)
                self._changed(sequence, before)
                before = sender.waiting_bytes
        self._changed(sequence, before)

    def has_room(self, size: int) -> bool:
        """As the next three, for `IQueuePolicy.admit`."""
        held = self.waiting_bytes + self.sent.bytes
        self.held.resize(held)
        is_allowed = not held or self._settings.memory.allows(held, size)
        return is_allowed and self.waiting_bytes + size <= self._settings.send_bytes

    def could_fit(self, size: int) -> bool:
        is_allowed = self._settings.memory.could_allow(self.waiting_bytes, size)
        return is_allowed and size <= self._settings.send_bytes

    def drop_oldest(self) -> bool:
        for sequence in self._ready.values():
            before = sequence.sender.waiting_bytes
            if sequence.sender.drop_oldest():
                self._changed(sequence, before)
                return True
        return False

    def drop_superseded(self) -> None:
        """Do nothing: a key may be of events that the newer one does not replace for all queries of
        the child."""

    def pass_missing(self, sequence: OutgoingSequence, upto: int) -> None:
        before = sequence.sender.waiting_bytes
        sequence.sender.pass_missing(upto)
        self._changed(sequence, before)

    def flush_empty(self) -> None:
        self.has_empty = False
        for sequence in self._by_key.values():
            if sequence.sender.end > sequence.sender.sent_upto:
                sequence.sender.flush_empty()
                self._changed(sequence, sequence.sender.waiting_bytes)

    def _changed(self, sequence: OutgoingSequence, waiting_before: int) -> None:
        self.waiting_bytes += sequence.sender.waiting_bytes - waiting_before
        if sequence.sender.is_waiting:
            self._ready[sequence.index] = sequence
        else:
            self._ready.pop(sequence.index, None)

    def send_control(self, data: bytes) -> None:
        start = self.control.end
        self.control.append(StreamRange(start, start + len(data), data))

    # ------------------------------------------------------------------ answers of the other end

    def acknowledge(self, index: int, an: int) -> None:
        if index == CONTROL_INDEX:
            # A later byte than the last can not be acknowledged.
            if an <= self.control.sent_upto:
                self.control.acknowledge(an)
            return
        sequence = self._by_index.get(index)
        if sequence is not None:
            sequence.is_known = True
            sender = sequence.sender
            before = sender.waiting_bytes
            self.sent.acknowledge(sender, an)
            self._changed(sequence, before)

    def answer(
        self, index: int, nack: Nack, parts: MissingParts | None, now: float, round_trip: float
    ) -> None:
        """Queue the ranges that a NACK requests; of one perhaps only the missing parts."""
        sequence = self._by_index.get(index)
        sender = self.control if index == CONTROL_INDEX else None
        found = sender or (None if sequence is None else sequence.sender)
        if found is None:
            return
        in_parts = {id(each[1]) for each in self._parts}
        for each in found.answer(nack, now, round_trip):
            if isinstance(each, Sent) and id(each.range) in in_parts:
                continue
            numbers: Sequence[int] = ()
            if parts is not None and isinstance(each, Sent):
                is_same = (each.range.previous, each.range.upto) == parts[:2]
                numbers = parts.numbers if is_same else ()
            self._repairs.append((index, each, numbers))

    def repeat_unknown(self, now: float, round_trip: float) -> None:
        """Repeat the ranges of sequences that the child does not know: it can not request
        them."""
        for sequence in self._by_key.values():
            sender = sequence.sender
            if not sequence.is_known and sender.sent_upto > sender.start:
                self.answer(sequence.index, Nack(sender.start, ()), None, now, round_trip)

    # ------------------------------------------------------------------ sending

    def flush(self, now: float) -> None:
        """Write packets as far as the pace allows."""
        while self._is_waiting and self.pacer.may_send(now):
            if self._parts:
                index, range_, body, flags = self._parts.popleft()
                self._write(flags, index, range_.upto, range_.previous, body, now)
            elif self.control.is_waiting:
                self._send(CONTROL_INDEX, self.control.next_to_send(self._writer.room, now), now)
            elif self._repairs:
                index, item, numbers = self._repairs.popleft()
                if isinstance(item, Unavailable) or item.is_kept:
                    self.repaired += not isinstance(item, Unavailable)
                    self._send(index, item, now, RETX, numbers)
            else:
                self._send_next(now)
        self._keep_bounds(now)

    @property
    def _is_waiting(self) -> bool:
        has_ready = self._ready and not self.is_carried
        return bool(self._parts or self._repairs or has_ready or self.control.is_waiting)

    @property
    def has_ready(self) -> bool:
        """True if ranges wait that were not sent yet."""
        return bool(self._ready)

    def unacknowledged_ends(self) -> list[tuple[int, int]]:
        """Return the ends of the sent ranges of the sequences, for a keep-alive."""
        ends = []
        if not self.control.is_acknowledged:
            ends.append((CONTROL_INDEX, self.control.sent_upto))
        in_parts = {each[0] for each in self._parts}
        ends += [
            (each.index, each.sender.sent_upto)
            for each in self._by_key.values()
            if each.is_known and not each.sender.is_acknowledged and each.index not in in_parts
        ]
        return ends[:MOST_ENDS]

    def next_timeout(self) -> float | None:
        return self.pacer.next_send_at() if self._is_waiting else None

    def _send_next(self, now: float) -> None:
        """Send some packets of the sequence whose turn it is."""
        index = next(iter(self._ready))
        sequence = self._ready.pop(index)
        sender, pacer = sequence.sender, self.pacer
        before = sender.waiting_bytes
        opening_bytes = 0 if sequence.is_known else len(sequence.opening)
        room = self._writer.room - len(EVENTS) - opening_bytes
        for _ in range(_TURN):
            item = sender.next_to_send(room, now)
            if isinstance(item, Sent):
                self.sent.add(sender, item)
            if sequence.is_known and isinstance(item, Sent) and item.range.size <= room:
                # The usual case.
                range_ = item.range
                self._write(0, index, range_.upto, range_.previous, EVENTS + range_.body, now)
            else:
                self._send(index, item, now)
            if self._parts or not sender.is_waiting or not pacer.may_send(now):
                break
        self._changed(sequence, before)

    def note_carried(self, key: SequenceKey, upto: int, now: float) -> None:
        """Note that a group has sent the ranges of a sequence up to an AN."""
        sequence = self._by_key.get(key)
        if sequence is None:
            return
        sender = sequence.sender
        before = sender.waiting_bytes
        if sender.end <= upto:
            sender.flush_empty()
        while sender.is_waiting_until(upto):
            item = sender.next_to_send(self._writer.room, now)
            if isinstance(item, Sent):
                self.sent.add(sender, item)
        self._changed(sequence, before)

    def repeat_unacknowledged(self, now: float) -> None:
        """Send again what the child has not acknowledged. It requests what is still missing."""
        for sequence in self._by_key.values():
            sender = sequence.sender
            if sender.kept_count:
                self.answer(sequence.index, Nack(sender.acknowledged, ()), None, now, 0.0)

    def _send(
        self,
        index: int,
        item: Sent[Any] | Unavailable,
        now: float,
        flags: int = 0,
        numbers: Sequence[int] = (),
    ) -> None:
        """Send a range, or some of its parts. `numbers` are those parts; empty: all."""
        opening = b""
        sequence = self._by_index.get(index)
        if sequence is None:
            flags |= STREAM | ACKREQ
        else:
            if not sequence.is_known:
                flags, opening = flags | SYN, sequence.opening
        if isinstance(item, Unavailable):
            self._write(flags | NACK | RETX, index, item.upto, item.after, opening, now)
            return
        range_ = item.range
        if isinstance(range_, StreamRange):
            self._write(flags, index, range_.upto, range_.previous, range_.data, now)
            return
        assert sequence is not None
        body = range_.body
        room = self._writer.room - len(opening) - len(EVENTS)
        if len(body) <= room:
            body = opening + EVENTS + body
            self._write(flags, index, range_.upto, range_.previous, body, now)
            return
        # The parts are the same when they are sent again.
        parts = split_parts(body, self._writer.room - len(sequence.opening) - len(EVENTS))
        for number in numbers or range(len(parts)):
            if number < len(parts):
                self._parts.append((index, range_, opening + PART + parts[number], flags))

    def _write(
        self, flags: int, index: int, an: int, previous: int, body: bytes, now: float
    ) -> None:
        self._until_ackreq -= 1
        if self._until_ackreq <= 0 or flags & SYN:
            flags |= ACKREQ
            self._until_ackreq = self._settings.ack_every
        size = self._writer.write(flags, an, previous, now, body, index, self._query_epoch())
        self.pacer.record_sent(size)

    # ------------------------------------------------------------------ bounds

    def _keep_bounds(self, now: float) -> None:
        settings = self._settings
        oldest = now - settings.send_seconds
        self.sent.keep_bounds(settings.send_bytes, oldest)
        if self.waiting_bytes > settings.send_bytes:
            if self.lagging_since is None:
                self.lagging_since = now
            self._drop_waiting(settings.send_bytes)
        elif self.waiting_bytes <= settings.send_bytes // 2:
            self.lagging_since = None
        while not self.held.resize(self.waiting_bytes + self.sent.bytes):
            # The queues of the node have no more room together.
            self._drop_waiting(self.waiting_bytes // 2)
            self.sent.keep_bounds(self.sent.bytes // 2, oldest)

    def _drop_waiting(self, most_bytes: int) -> None:
        """Leave the oldest waiting ranges beyond so many bytes to the log."""
        for sequence in list(self._ready.values()):
            excess = self.waiting_bytes - most_bytes
            if excess <= 0:
                break
            before = sequence.sender.waiting_bytes
            self.dropped_bytes += sequence.sender.drop_waiting(excess)
            self._changed(sequence, before)
