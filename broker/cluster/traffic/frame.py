"""A frame: events of one origin for several destinations (DESIGN 4; M18, G8, D30).

The header holds all that a hop needs. Records and documents are forwarded unchanged. For each
destination the frame names a range (after, upto] of places, and has all events of it that match the
destination's interest. So a receiver can tell filtered events from lost ones.
`docs/protocols/traffic.md` has the bytes.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from broker.cluster.address import Address
from broker.cluster.traffic.frame_checks import check_intervals, check_runs
from broker.cluster.traffic.frame_content import (
    PLAIN,
    ZSTD,
    ZSTD_ALL,
    ZSTD_RECORDS,
    check_lengths,
    compress,
    decompress,
    split_bytes,
)
from broker.cluster.traffic.frame_range import Range, WireRange, read_range, wire_ranges
from broker.cluster.traffic.range_claim import FrameEvents, without_levels, without_other_groups
from broker.cluster.traffic.version import (
    FLOW_VERSION,
    PACKED_RECORDS_VERSION,
    PROOF_VERSION,
    record_fields,
)
from broker.errors import BadName, ProtocolError
from broker.event.flow import MAX_INTERVALS, FlowInterval, check_flow, is_default_flow
from broker.event.place import Mark, NamedHistory
from broker.event.record import ANNOTATED, PROVED, limit_fields
from broker.signatures.range_statement import RangeStatement
from broker.streams.contract import CarriedEvent
from broker.wire.codec import Count, Epoch, Offset, Rank, Schema, WireHistory, WireMark, pack

KIND = 0x60
MAX_EVENTS = 65_536
MAX_DESTINATIONS = 4_096
#: A longer route is a loop.
MAX_HOPS = 128

_HEAD = struct.Struct(">BII")

#: (count, indices of the ranges with these events)
RecipientRun: TypeAlias = tuple[int, tuple[int, ...]]
#: Consecutive places: (epoch, first offset, count).
MarkRun: TypeAlias = tuple[int, int, int]
#: Equal security levels: (rank, count).
LevelRun: TypeAlias = tuple[int, int]


@attrs.define(eq=False)
class Frame:
    origin: str
    """The key of a flow."""
    origin_node: Address
    """In its absence, a node with a replica."""
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
    intervals: Sequence[FlowInterval] = ()
    """Of another flow than the default one, from its origin node."""
    statement: RangeStatement | None = None
    """The origin's signature on the ranges that have a proof. Only with a history."""
    _events: Sequence[CarriedEvent] | None = attrs.field(init=False, default=None)

    def cache_events(self, events: Sequence[CarriedEvent]) -> None:
        """Keep the events of a frame that this node has made or decoded already."""
        self._events = events

    @property
    def least_version(self) -> int:
        """Links of a lower version do not carry the frame."""
        return 1 if is_default_flow(self.origin) else FLOW_VERSION

    @property
    def event_count(self) -> int:
        return len(self.document_lengths)

    @property
    def highest_rank(self) -> int:
        return max([rank for rank, _ in self.level_runs], default=0)

    def highest_rank_for(self, index: int) -> int:
        if len(self.level_runs) <= 1:
            return self.highest_rank
        levels = self.event_ranks()
        return max([levels[i] for i in self.event_indices_for(index)], default=0)

    @property
    def size(self) -> int:
        """Bytes of the records, and of the body."""
        if self._events is None:
            return len(self.records) + len(self.body)
        return sum([len(each.record) + len(each.document) for each in self._events])

    def event_ranks(self) -> list[int]:
        return [rank for rank, count in self.level_runs for _ in range(count)]

    def marks(self) -> list[Mark]:
        return [
            (epoch, offset)
            for epoch, first, count in self.mark_runs
            for offset in range(first, first + count)
        ]

    def event_indices_for(self, index: int) -> list[int]:
        found: list[int] = []
        start = 0
        for count, indices in self.recipient_runs:
            if index in indices:
                found.extend(range(start, start + count))
            start += count
        return found

    def events_by_range(self) -> FrameEvents:
        """Return the places and ranks of the events of each range."""
        return FrameEvents(self.marks(), self.event_ranks(), self.recipient_runs)

    def documents(self) -> list[bytes]:
        """Raises `ProtocolError` for a malformed body."""
        return split_bytes(self._plain_content()[1], self.document_lengths)

    def events_at(self, chosen: Sequence[int]) -> list[CarriedEvent]:
        if not chosen:
            return []
        if self._events is not None:
            return [self._events[i] for i in chosen]
        marks, levels = self.marks(), self.event_ranks()
        records, documents = self._split_content()
        return [CarriedEvent(marks[i], records[i], documents[i], levels[i]) for i in chosen]

    def events_for(self, index: int) -> Sequence[CarriedEvent]:
        """Return the events of a range. Raises `ProtocolError` for a malformed body."""
        if self._events is not None and len(self.recipient_runs) == len(self.ranges) == 1:
            return self._events
        return self.events_at(self.event_indices_for(index))

    def restricted_to(self, max_ranks: Mapping[int, int]) -> Frame:
        """Return the frame for some destinations; events without a recipient are dropped.

        `max_ranks` maps the index of each to the highest rank that it may get.
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
        if self.statement is not None and self.highest_rank > lowest_cap:
            found = self.events_by_range()
            ranges = [
                without_levels(self.ranges[i], found.of_range(i), cap)
                for i, cap in max_ranks.items()
            ]
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
        records, body = self._plain_content()
        updated = split_bytes(body, self.document_lengths)
        for index, document in documents.items():
            updated[index] = document
        return attrs.evolve(
            self,
            encoding=PLAIN,
            records=records,
            document_lengths=list(map(len, updated)),
            body=b"".join(updated),
        )

    def _with_subset(
        self, chosen: Sequence[int], ranges: Sequence[Range], runs: Sequence[RecipientRun]
    ) -> Frame:
        statement, ranges = without_other_groups(self.statement, ranges)
        if len(chosen) == self.event_count:
            # For each hop of each frame: `evolve` takes several times as long.
            head = self.origin, self.origin_node, self.level_runs, self.hops, ranges
            events = self.mark_runs, runs, self.encoding, self.record_lengths
            tail = self.document_lengths, self.records, self.body, self.history, self.intervals
            return Frame(*(*head, *events, *tail, statement))
        records, documents = self._split_content() if chosen else ([], [])
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
            statement=statement,
        )

    def _runs_by_rank(self, lowest_cap: int) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        """Return (rank, count, indices), split where ranks exceed `lowest_cap`."""
        if self.highest_rank <= lowest_cap:
            return [(0, count, indices) for count, indices in self.recipient_runs]
        levels = iter(self.event_ranks())
        return [
            (rank, len(list(group)), indices)
            for count, indices in self.recipient_runs
            for rank, group in itertools.groupby(itertools.islice(levels, count))
        ]

    def with_content_of(self, other: Frame) -> Frame:
        """Return the frame with the records and documents of one with the same events."""
        return attrs.evolve(self, encoding=other.encoding, records=other.records, body=other.body)

    def compressed(self, *, documents: bool = True) -> Frame:
        """Return the frame with its records, or `documents` too, in zstd, if that is shorter."""
        if self.encoding != PLAIN:
            return self
        content = self.records + self.body if documents else self.records
        packed = compress(content)
        if packed is content:
            return self
        if documents:
            return attrs.evolve(self, encoding=ZSTD_ALL, records=b"", body=packed)
        return attrs.evolve(self, encoding=ZSTD_RECORDS, records=packed)

    def uncompressed(self) -> Frame:
        records, body = self._plain_content()
        return attrs.evolve(self, encoding=PLAIN, records=records, body=body)

    def encode(self, version: int = PACKED_RECORDS_VERSION) -> bytes:
        """`version` is that of the link's node protocol."""
        if version < PROOF_VERSION:
            return self._for_version(version)._encode(version)
        is_known = version >= PACKED_RECORDS_VERSION or self.encoding != ZSTD_RECORDS
        return (self if is_known else self.uncompressed())._encode(version)

    def _for_version(self, version: int) -> Frame:
        """Return the frame for an earlier version: with shorter records, and plain ones."""
        records, body = self._plain_content()
        encoding = PLAIN
        if self.encoding == ZSTD:
            encoding, body = ZSTD, self.body
        elif self.encoding == ZSTD_ALL and (packed := compress(body)) is not body:
            encoding, body = ZSTD, packed
        lengths = self.record_lengths
        if ANNOTATED in records or PROVED in records:
            most = record_fields(version)
            limited = [limit_fields(each, most) for each in split_bytes(records, lengths)]
            lengths, records = list(map(len, limited)), b"".join(limited)
        return attrs.evolve(
            self, encoding=encoding, record_lengths=lengths, records=records, body=body
        )

    def _encode(self, version: int) -> bytes:
        last_fields: tuple[object, ...] = ()
        if self.history is not None and version >= 2:
            last_fields = (self.history, self.intervals) if self.intervals else (self.history,)
            if self.statement is not None and version >= PROOF_VERSION:
                last_fields = self.history, self.intervals, self.statement
        header = pack(
            (
                self.origin,
                self.origin_node,
                self.level_runs,
                self.hops,
                wire_ranges(self.ranges, version),
                self.mark_runs,
                self.recipient_runs,
                self.encoding,
                self.record_lengths,
                self.document_lengths,
                *last_fields,
            )
        )
        head = _HEAD.pack(KIND, len(header), len(self.records))
        return b"".join((head, header, self.records, self.body))

    def _plain_content(self) -> tuple[bytes, bytes]:
        """Return all records, and all documents. Raises `ProtocolError` for a malformed body."""
        if self.encoding == PLAIN:
            return self.records, self.body
        documents = sum(self.document_lengths)
        if self.encoding == ZSTD:
            return self.records, decompress(self.body, documents)
        records = sum(self.record_lengths)
        if self.encoding == ZSTD_RECORDS:
            return decompress(self.records, records), self.body
        content = decompress(self.body, records + documents)
        return content[:records], content[records:]

    def _split_content(self) -> tuple[list[bytes], list[bytes]]:
        records, body = self._plain_content()
        return split_bytes(records, self.record_lengths), split_bytes(body, self.document_lengths)


_Run: TypeAlias = Annotated[int, Meta(ge=1)]
_Lengths: TypeAlias = Annotated[tuple[Offset, ...], Meta(max_length=MAX_EVENTS)]


class _Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    origin: Annotated[str, Meta(min_length=1)]
    origin_node: Address
    level_runs: tuple[tuple[Rank, _Run], ...]
    hops: Annotated[int, Meta(ge=0, le=MAX_HOPS)]
    ranges: Annotated[tuple[WireRange, ...], Meta(max_length=MAX_DESTINATIONS)]
    mark_runs: tuple[tuple[Epoch, Offset, _Run], ...]
    recipient_runs: tuple[tuple[_Run, tuple[Count, ...]], ...]
    encoding: Annotated[int, Meta(ge=PLAIN, le=ZSTD_RECORDS)]
    record_lengths: _Lengths
    document_lengths: _Lengths
    history: WireHistory = None  # type: ignore[assignment]
    """Since version 2. It may be absent, but not None."""
    intervals: Annotated[
        tuple[tuple[WireMark, WireMark | None], ...], Meta(max_length=MAX_INTERVALS)
    ] = ()
    """Since version 3. Only with a history."""
    statement: RangeStatement = None  # type: ignore[assignment]
    """Since version 5. Only with a history."""


_HEADER: Final = Schema[_Header](_Header, "header")


def decode_frame(data: bytes) -> Frame:
    """Raises `ProtocolError` for malformed bytes."""
    try:
        kind, header_length, records_length = _HEAD.unpack_from(data)
        if kind != KIND:
            raise ValueError("not a frame")
        records_at = _HEAD.size + header_length
        body_at = records_at + records_length
        header = _HEADER.decode(data[_HEAD.size : records_at])
        records, body = data[records_at:body_at], data[body_at:]
        lengths = header.record_lengths, header.document_lengths
        check_lengths(header.encoding, *lengths, len(records), len(body))
        runs = header.mark_runs, header.recipient_runs, header.level_runs
        check_runs(len(header.document_lengths), len(header.ranges), *runs)
        check_intervals(check_flow(header.origin), header.intervals)
        frame = Frame(**msgspec.structs.asdict(header), records=records, body=body)
        frame.ranges = [read_range(each) for each in header.ranges]
        return frame
    except (ValueError, struct.error, BadName) as error:
        raise ProtocolError(f"malformed frame: {error}") from None


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
