"""A frame: events of one origin on their way to several destinations (DESIGN 4; M18, G8, D30).

The header tells all that a hop needs; records and documents are passed on as they came. For each
destination it says from which place on, and up to which, all events are in here that are for it:
`after` and `upto` are the place and the previous place of a batch, so what was filtered is told
from what was lost.

`0x60 | header length u32 | records length u32 | header | records | body`, integers big-endian. The
header is a msgpack array of the fields of `Frame` up to `document_lengths`, in their order; records
are msgpack arrays as in a session's DELIVER; the body is all documents, or one zstd frame of them.
`docs/protocols/flows.md` shows it.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs
import msgpack
import zstandard

from broker.cluster.address import Address, check_name, check_unit
from broker.cluster.descriptor import check_rank
from broker.cluster.traffic.known_histories import check_history
from broker.errors import BadName, ProtocolError
from broker.event.place import Mark, NamedHistory
from broker.wire import fields

KIND = 0x60
#: More events, or destinations, no frame carries.
MAX_EVENTS = 65_536
MAX_DESTINATIONS = 4_096
#: As many links a frame passes at most: a longer way is a circle.
MAX_HOPS = 128
#: More bytes of documents no frame carries: what a compressed body may become.
MAX_BODY_BYTES = 64 << 20
PLAIN, ZSTD = 0, 1
#: Shorter bodies are not compressed: what a link carries is not counted in packets of so few bytes.
MIN_COMPRESSED_BYTES = 512
#: The quickest level: a hop is not to wait for it.
_compressor = zstandard.ZstdCompressor(level=1)

_HEAD = struct.Struct(">BII")
#: Of the header in version 1; in version 2 the history may follow.
_VERSION_1_FIELDS = 10

#: So many neighbouring events for the same destinations, told by their indices.
RecipientRun: TypeAlias = tuple[int, tuple[int, ...]]
#: Events with neighbouring places: (epoch, first offset, count).
MarkRun: TypeAlias = tuple[int, int, int]
#: So many neighbouring events with the same rank of their security level: (rank, count).
LevelRun: TypeAlias = tuple[int, int]


class Range(NamedTuple):
    """What a frame tells one destination: what it wants of (after, upto] of the origin is in it."""

    destination: Address
    """A node; or with an empty name all that is in a unit."""
    after: Mark
    upto: Mark
    unavailable_upto: Mark | None = None
    """What lies up to here is in no log any more: of it nothing is in the frame."""
    has_more: bool = False
    """It was asked for, and there is more: ask again."""
    first_after: Mark | None = None
    """Who has nothing of this origin yet begins here; None: at `after`."""
    is_unfiltered: bool = False
    """All events of the origin are in it, wanted or not: so it was asked for."""


class FrameEvent(NamedTuple):
    """One event in a frame."""

    mark: Mark
    record: bytes
    document: bytes
    level: int = 0
    """Rank of its security level."""


@attrs.define(eq=False)
class Frame:
    """Decoded as far as a hop needs it."""

    origin: str
    origin_node: Address
    """The node whose log that is: ask it for what is missing."""
    level_runs: Sequence[LevelRun]
    """The events' security levels."""
    hops: int
    """How many links it may still pass."""
    ranges: Sequence[Range]
    mark_runs: Sequence[MarkRun]
    recipient_runs: Sequence[RecipientRun]
    encoding: int
    record_lengths: Sequence[int]
    document_lengths: Sequence[int]
    records: bytes
    body: bytes
    history: NamedHistory | None = None
    """In which history the home logs now; None if that is not known."""

    @property
    def event_count(self) -> int:
        """How many events it carries."""
        return len(self.document_lengths)

    @property
    def highest_rank(self) -> int:
        """The highest of the events' security levels."""
        return max([rank for rank, _ in self.level_runs], default=0)

    def highest_rank_for(self, index: int) -> int:
        """The highest security level among the events for the destination with this index."""
        if len(self.level_runs) <= 1:
            return self.highest_rank
        levels = self.event_ranks()
        return max([levels[i] for i in self.event_indices_for(index)], default=0)

    def event_ranks(self) -> list[int]:
        """The rank of each event's security level."""
        return [rank for rank, count in self.level_runs for _ in range(count)]

    def marks(self) -> list[Mark]:
        """The place of each event."""
        return [
            (epoch, offset)
            for epoch, first, count in self.mark_runs
            for offset in range(first, first + count)
        ]

    def event_indices_for(self, index: int) -> list[int]:
        """Which events are for the destination with this index."""
        found: list[int] = []
        start = 0
        for count, indices in self.recipient_runs:
            if index in indices:
                found.extend(range(start, start + count))
            start += count
        return found

    def documents(self) -> list[bytes]:
        """The events' documents; `ProtocolError` if the body is not what it should be."""
        return _split_bytes(self._plain_body(), self.document_lengths)

    def events_at(self, chosen: Sequence[int]) -> list[FrameEvent]:
        """The events at these indices."""
        if not chosen:
            return []
        marks, documents, levels = self.marks(), self.documents(), self.event_ranks()
        records = _split_bytes(self.records, self.record_lengths)
        return [FrameEvent(marks[i], records[i], documents[i], levels[i]) for i in chosen]

    def restricted_to(self, max_ranks: Mapping[int, int]) -> Frame:
        """The frame for some of its destinations, each with the highest level that it may have.

        Events that none of them wants, or may have, are not in it.
        """
        renumbered = {old: new for new, old in enumerate(max_ranks)}
        lowest_cap = min(max_ranks.values(), default=0)
        chosen: list[int] = []
        runs: list[RecipientRun] = []
        start = 0
        for rank, count, indices in self._runs_by_rank(lowest_cap):
            recipients = tuple(
                [renumbered[i] for i in indices if i in max_ranks and max_ranks[i] >= rank]
            )
            if recipients:
                if runs and runs[-1][1] == recipients:
                    runs[-1] = (runs[-1][0] + count, recipients)
                else:
                    runs.append((count, recipients))
                chosen.extend(range(start, start + count))
            start += count
        ranges = [self.ranges[i] for i in max_ranks]
        return self._with_subset(chosen, ranges, runs)

    def with_only_events(self, chosen: Sequence[int]) -> Frame:
        """The same with no events but those at these indices."""
        indices = [indices for count, indices in self.recipient_runs for _ in range(count)]
        runs = [
            (len(list(group)), indices)
            for indices, group in itertools.groupby(indices[i] for i in chosen)
        ]
        return self._with_subset(chosen, self.ranges, runs)

    def replace_documents(self, documents: Mapping[int, bytes]) -> Frame:
        """The same with other documents at these indices."""
        if not documents:
            return self
        updated = self.documents()
        for index, document in documents.items():
            updated[index] = document
        return attrs.evolve(
            self,
            encoding=PLAIN,
            document_lengths=list(map(len, updated)),
            body=b"".join(updated),
        )

    def _with_subset(
        self, chosen: Sequence[int], ranges: Sequence[Range], runs: Sequence[RecipientRun]
    ) -> Frame:
        if len(chosen) == self.event_count:
            return attrs.evolve(self, ranges=ranges, recipient_runs=runs)
        records = _split_bytes(self.records, self.record_lengths)
        documents = self.documents() if chosen else []
        marks, levels = self.marks(), self.event_ranks()
        return attrs.evolve(
            self,
            ranges=ranges,
            recipient_runs=runs,
            level_runs=encode_level_runs([levels[i] for i in chosen]),
            mark_runs=encode_mark_runs([marks[i] for i in chosen]),
            encoding=PLAIN,
            record_lengths=[self.record_lengths[i] for i in chosen],
            document_lengths=[self.document_lengths[i] for i in chosen],
            records=b"".join([records[i] for i in chosen]),
            body=b"".join([documents[i] for i in chosen]),
        )

    def _runs_by_rank(self, lowest_cap: int) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        """(rank, count, indices) of the runs; of an event's rank only where it is over `least`."""
        if self.highest_rank <= lowest_cap:
            return [(0, count, indices) for count, indices in self.recipient_runs]
        levels = iter(self.event_ranks())
        return [
            (rank, len(list(group)), indices)
            for count, indices in self.recipient_runs
            for rank, group in itertools.groupby(itertools.islice(levels, count))
        ]

    def compressed(self) -> Frame:
        """The same with a zstd body, where that is worth it."""
        if self.encoding != PLAIN or len(self.body) < MIN_COMPRESSED_BYTES:
            return self
        body = _compressor.compress(self.body)
        if len(body) >= len(self.body):
            return self
        return attrs.evolve(self, encoding=ZSTD, body=body)

    def uncompressed(self) -> Frame:
        """The same with a plain body, for a link that knows no other."""
        return attrs.evolve(self, encoding=PLAIN, body=self._plain_body())

    def encode(self, version: int = 2) -> bytes:
        """The bytes for a link of this version of the protocol between nodes."""
        history_fields = (self.history,) if self.history is not None and version >= 2 else ()
        header = msgpack.packb(
            (
                self.origin,
                self.origin_node,
                self.level_runs,
                self.hops,
                self.ranges,
                self.mark_runs,
                self.recipient_runs,
                self.encoding,
                self.record_lengths,
                self.document_lengths,
                *history_fields,
            )
        )
        head = _HEAD.pack(KIND, len(header), len(self.records))
        return b"".join((head, header, self.records, self.body))

    def _plain_body(self) -> bytes:
        if self.encoding == PLAIN:
            return self.body
        length = sum(self.document_lengths)
        try:
            # What the body says of itself would go before `max_output_size`.
            if zstandard.frame_content_size(self.body) not in (-1, length):
                raise ProtocolError("the body of a frame says another length than its header")
            body = zstandard.ZstdDecompressor().decompress(
                self.body, max_output_size=max(length, 1), allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise ProtocolError(f"the body of a frame can not be read: {error}") from None
        if len(body) != length:
            raise ProtocolError("the body of a frame has another length than its header says")
        return body


def decode_frame(data: bytes) -> Frame:
    """The frame that these bytes are; `ProtocolError` if they are none."""
    try:
        kind, header_length, records_length = _HEAD.unpack_from(data)
        if kind != KIND:
            raise ValueError("another kind of message")
        records_at = _HEAD.size + header_length
        body_at = records_at + records_length
        header = msgpack.unpackb(data[_HEAD.size : records_at], use_list=False)
        records, body = data[records_at:body_at], data[body_at:]
        frame = Frame(
            *header[:_VERSION_1_FIELDS],
            records,
            body,
            *map(check_history, header[_VERSION_1_FIELDS:]),
        )  # type: ignore[call-arg]
        frame.origin_node = _check_address(frame.origin_node)
        if not frame.origin_node.node:
            raise ValueError("a home that is no node")
        frame.ranges = [_check_range(each) for each in frame.ranges]
        _check_frame(frame, len(data) - body_at)
        return frame
    except (ValueError, TypeError, LookupError, BadName, struct.error, msgpack.UnpackException):
        raise ProtocolError("malformed frame") from None


def encode_mark_runs(marks: Iterable[Mark]) -> list[MarkRun]:
    """Neighbouring places together."""
    runs: list[MarkRun] = []
    for epoch, offset in marks:
        if runs and runs[-1][0] == epoch and sum(runs[-1][1:]) == offset:
            last = runs[-1]
            runs[-1] = (epoch, last[1], last[2] + 1)
        else:
            runs.append((epoch, offset, 1))
    return runs


def encode_level_runs(levels: Iterable[int]) -> list[LevelRun]:
    """Neighbouring events of one level together."""
    return [(level, len(list(group))) for level, group in itertools.groupby(levels)]


def _check_frame(frame: Frame, body_length: int) -> None:
    lengths = (frame.record_lengths, frame.document_lengths)
    if len(frame.ranges) > MAX_DESTINATIONS or any(len(each) > MAX_EVENTS for each in lengths):
        raise ValueError("too much for one frame")
    if frame.hops > MAX_HOPS:
        raise ValueError("more links than a frame may pass")
    if (
        type(frame.origin) is not str
        or not 0 < len(frame.origin.encode()) <= 64
        or "\0" in frame.origin
    ):
        raise ValueError("an origin")
    for number in itertools.chain((frame.hops,), *lengths, *frame.mark_runs, *frame.level_runs):
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise ValueError("a number")
    counts = {len(each) for each in lengths}
    counts.add(sum([count for _, _, count in frame.mark_runs]))
    counts.add(sum([count for count, _ in frame.recipient_runs]))
    counts.add(sum([count for rank, count in frame.level_runs if check_rank(rank) >= 0]))
    if len(counts) > 1 or sum(frame.record_lengths) != len(frame.records):
        raise ValueError("the counts differ")
    if sum(frame.document_lengths) > MAX_BODY_BYTES:
        raise ValueError("too many bytes for one frame")
    if not all(
        type(count) is int
        and count > 0
        and all(type(i) is int and 0 <= i < len(frame.ranges) for i in indices)
        for count, indices in frame.recipient_runs
    ):
        raise ValueError("a run")
    if any(count < 1 for *_, count in (*frame.mark_runs, *frame.level_runs)):
        raise ValueError("a run of nothing")
    ends = [((e, first), (e, first + count - 1)) for e, first, count in frame.mark_runs]
    for epoch, first, count in frame.mark_runs:
        _check_mark((epoch, first + count))
    if any(one[1] >= other[0] for one, other in itertools.pairwise(ends)):
        raise ValueError("places do not rise")
    if frame.encoding not in (PLAIN, ZSTD):
        raise ValueError("an encoding that was not agreed on")
    if frame.encoding == PLAIN and sum(frame.document_lengths) != body_length:
        raise ValueError("the lengths do not add up")


def _check_range(value: Any) -> Range:
    destination, after, upto, unavailable_upto, has_more, first_after, is_unfiltered = value
    span = Range(
        _check_address(destination),
        _check_mark(after),
        _check_mark(upto),
        None if unavailable_upto is None else _check_mark(unavailable_upto),
        fields.flag(has_more),
        None if first_after is None else _check_mark(first_after),
        fields.flag(is_unfiltered),
    )
    if span.upto < span.after or (span.first_after or span.after) > span.after:
        raise ValueError("a range that ends before it begins")
    if span.unavailable_upto is not None and span.unavailable_upto > span.upto:
        raise ValueError("more is gone than was told of")
    return span


def _check_address(value: Any) -> Address:
    unit, node = value
    return Address(check_unit(unit), check_name(node) if node else "")


def _check_mark(value: Any) -> Mark:
    return fields.mark(value)


def _split_bytes(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    ends = list(itertools.accumulate(lengths, initial=0))
    return [data[start:end] for start, end in itertools.pairwise(ends)]
