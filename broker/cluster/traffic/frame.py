"""A frame: events of one origin for several destinations (DESIGN 4; M18, G8, D30).

The header holds all that a hop needs. Records and documents are forwarded unchanged. For each
destination the frame names a range (after, upto] of places. All events of the range that match the
destination's interest are in the frame. So a receiver can tell filtered events from lost ones.

`0x60 | header length u32 | records length u32 | header | records | body`, integers big-endian. The
header is a msgpack array of the fields of `Frame` up to `document_lengths`, in order. Records are
msgpack arrays as in a session's DELIVER. The body holds all documents, or one zstd frame of them.
See `docs/protocols/traffic.md`.
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
#: Limits of one frame.
MAX_EVENTS = 65_536
MAX_DESTINATIONS = 4_096
#: Links that a frame crosses at most. A longer route is a loop.
MAX_HOPS = 128
#: Document bytes of one frame, decompressed.
MAX_BODY_BYTES = 64 << 20
PLAIN, ZSTD = 0, 1
#: Shorter bodies are not compressed: it would save less than one packet.
MIN_COMPRESSED_BYTES = 512
#: The fastest level, since each hop waits for it.
_compressor = zstandard.ZstdCompressor(level=1)

_HEAD = struct.Struct(">BII")
#: Header fields in version 1. In version 2 the history may follow.
_VERSION_1_FIELDS = 10

#: Consecutive events with equal recipients: (count, indices of the ranges).
RecipientRun: TypeAlias = tuple[int, tuple[int, ...]]
#: Events with consecutive places: (epoch, first offset, count).
MarkRun: TypeAlias = tuple[int, int, int]
#: Consecutive events with an equal rank of the security level: (rank, count).
LevelRun: TypeAlias = tuple[int, int]


class Range(NamedTuple):
    """The places (after, upto] of an origin for one destination. The frame has all matching events
    of it."""

    destination: Address
    """A node, or with an empty node name all nodes of a unit."""
    after: Mark
    upto: Mark
    unavailable_upto: Mark | None = None
    """Events up to this place are in no log any more and not in the frame."""
    has_more: bool = False
    """The range answers a page request, and the reader can request the next page."""
    first_after: Mark | None = None
    """A node without events of this origin starts here; None: at `after`."""
    is_unfiltered: bool = False
    """The frame has all events of the range, also those outside the destination's interest."""


class FrameEvent(NamedTuple):
    mark: Mark
    record: bytes
    document: bytes
    level: int = 0
    """Rank of its security level."""


@attrs.define(eq=False)
class Frame:
    origin: str
    origin_node: Address
    """The node that serves missing events: the origin node or, in its absence, one with a
    replica."""
    level_runs: Sequence[LevelRun]
    hops: int
    """Links that the frame may still cross."""
    ranges: Sequence[Range]
    mark_runs: Sequence[MarkRun]
    recipient_runs: Sequence[RecipientRun]
    encoding: int
    record_lengths: Sequence[int]
    document_lengths: Sequence[int]
    records: bytes
    body: bytes
    history: NamedHistory | None = None
    """History that the origin node logs in; None if unknown."""

    @property
    def event_count(self) -> int:
        return len(self.document_lengths)

    @property
    def highest_rank(self) -> int:
        return max([rank for rank, _ in self.level_runs], default=0)

    def highest_rank_for(self, index: int) -> int:
        """Of the events for the range with this index."""
        if len(self.level_runs) <= 1:
            return self.highest_rank
        levels = self.event_ranks()
        return max([levels[i] for i in self.event_indices_for(index)], default=0)

    def event_ranks(self) -> list[int]:
        return [rank for rank, count in self.level_runs for _ in range(count)]

    def marks(self) -> list[Mark]:
        return [
            (epoch, offset)
            for epoch, first, count in self.mark_runs
            for offset in range(first, first + count)
        ]

    def event_indices_for(self, index: int) -> list[int]:
        """Of the events for the range with this index."""
        found: list[int] = []
        start = 0
        for count, indices in self.recipient_runs:
            if index in indices:
                found.extend(range(start, start + count))
            start += count
        return found

    def documents(self) -> list[bytes]:
        """Raises `ProtocolError` for a malformed body."""
        return _split_bytes(self._plain_body(), self.document_lengths)

    def events_at(self, chosen: Sequence[int]) -> list[FrameEvent]:
        if not chosen:
            return []
        marks, documents, levels = self.marks(), self.documents(), self.event_ranks()
        records = _split_bytes(self.records, self.record_lengths)
        return [FrameEvent(marks[i], records[i], documents[i], levels[i]) for i in chosen]

    def restricted_to(self, max_ranks: Mapping[int, int]) -> Frame:
        """Return the frame for some of its destinations.

        `max_ranks` maps the index of each to the highest rank that it may get. Events without a
        recipient are dropped.
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
        indices = [indices for count, indices in self.recipient_runs for _ in range(count)]
        runs = [
            (len(list(group)), indices)
            for indices, group in itertools.groupby(indices[i] for i in chosen)
        ]
        return self._with_subset(chosen, self.ranges, runs)

    def replace_documents(self, documents: Mapping[int, bytes]) -> Frame:
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
        """Return (rank, count, indices) of all runs, split by rank where ranks exceed
        `lowest_cap`."""
        if self.highest_rank <= lowest_cap:
            return [(0, count, indices) for count, indices in self.recipient_runs]
        levels = iter(self.event_ranks())
        return [
            (rank, len(list(group)), indices)
            for count, indices in self.recipient_runs
            for rank, group in itertools.groupby(itertools.islice(levels, count))
        ]

    def compressed(self) -> Frame:
        """Return the frame with a zstd body, if that is shorter."""
        if self.encoding != PLAIN or len(self.body) < MIN_COMPRESSED_BYTES:
            return self
        body = _compressor.compress(self.body)
        if len(body) >= len(self.body):
            return self
        return attrs.evolve(self, encoding=ZSTD, body=body)

    def uncompressed(self) -> Frame:
        return attrs.evolve(self, encoding=PLAIN, body=self._plain_body())

    def encode(self, version: int = 2) -> bytes:
        """`version` is that of the link's node protocol."""
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
            # `decompress` trusts the size in the body over `max_output_size`.
            if zstandard.frame_content_size(self.body) not in (-1, length):
                raise ProtocolError("the length in the body of a frame differs from its header")
            body = zstandard.ZstdDecompressor().decompress(
                self.body, max_output_size=max(length, 1), allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise ProtocolError(f"the body of a frame can not be decompressed: {error}") from None
        if len(body) != length:
            raise ProtocolError("the body of a frame has another length than its header states")
        return body


def decode_frame(data: bytes) -> Frame:
    """Raises `ProtocolError` for malformed bytes."""
    try:
        kind, header_length, records_length = _HEAD.unpack_from(data)
        if kind != KIND:
            raise ValueError("not a frame")
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
            raise ValueError("the origin node has no node name")
        frame.ranges = [_check_range(each) for each in frame.ranges]
        _check_frame(frame, len(data) - body_at)
        return frame
    except (ValueError, TypeError, LookupError, BadName, struct.error, msgpack.UnpackException):
        raise ProtocolError("malformed frame") from None


def encode_mark_runs(marks: Iterable[Mark]) -> list[MarkRun]:
    runs: list[MarkRun] = []
    for epoch, offset in marks:
        if runs and runs[-1][0] == epoch and sum(runs[-1][1:]) == offset:
            last = runs[-1]
            runs[-1] = (epoch, last[1], last[2] + 1)
        else:
            runs.append((epoch, offset, 1))
    return runs


def encode_level_runs(levels: Iterable[int]) -> list[LevelRun]:
    return [(level, len(list(group))) for level, group in itertools.groupby(levels)]


def _check_frame(frame: Frame, body_length: int) -> None:
    lengths = (frame.record_lengths, frame.document_lengths)
    if len(frame.ranges) > MAX_DESTINATIONS or any(len(each) > MAX_EVENTS for each in lengths):
        raise ValueError("too much for one frame")
    if frame.hops > MAX_HOPS:
        raise ValueError("too many hops")
    if (
        type(frame.origin) is not str
        or not 0 < len(frame.origin.encode()) <= 64
        or "\0" in frame.origin
    ):
        raise ValueError("invalid origin")
    for number in itertools.chain((frame.hops,), *lengths, *frame.mark_runs, *frame.level_runs):
        if type(number) is not int or not 0 <= number < 1 << 63:
            raise ValueError("invalid number")
    counts = {len(each) for each in lengths}
    counts.add(sum([count for _, _, count in frame.mark_runs]))
    counts.add(sum([count for count, _ in frame.recipient_runs]))
    counts.add(sum([count for rank, count in frame.level_runs if check_rank(rank) >= 0]))
    if len(counts) > 1 or sum(frame.record_lengths) != len(frame.records):
        raise ValueError("event counts differ")
    if sum(frame.document_lengths) > MAX_BODY_BYTES:
        raise ValueError("too many bytes for one frame")
    if not all(
        type(count) is int
        and count > 0
        and all(type(i) is int and 0 <= i < len(frame.ranges) for i in indices)
        for count, indices in frame.recipient_runs
    ):
        raise ValueError("invalid run")
    if any(count < 1 for *_, count in (*frame.mark_runs, *frame.level_runs)):
        raise ValueError("empty run")
    ends = [((e, first), (e, first + count - 1)) for e, first, count in frame.mark_runs]
    for epoch, first, count in frame.mark_runs:
        _check_mark((epoch, first + count))
    if any(one[1] >= other[0] for one, other in itertools.pairwise(ends)):
        raise ValueError("places do not ascend")
    if frame.encoding not in (PLAIN, ZSTD):
        raise ValueError("unknown encoding")
    if frame.encoding == PLAIN and sum(frame.document_lengths) != body_length:
        raise ValueError("lengths do not add up")


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
        raise ValueError("range ends before it begins")
    if span.unavailable_upto is not None and span.unavailable_upto > span.upto:
        raise ValueError("unavailable places exceed the range")
    return span


def _check_address(value: Any) -> Address:
    unit, node = value
    return Address(check_unit(unit), check_name(node) if node else "")


def _check_mark(value: Any) -> Mark:
    return fields.mark(value)


def _split_bytes(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    ends = list(itertools.accumulate(lengths, initial=0))
    return [data[start:end] for start, end in itertools.pairwise(ends)]
