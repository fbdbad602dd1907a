"""How an event lies in the log, byte by byte.

A value is `epoch u32 | arrival u64 (ms since 1970) | record length u16 | record | document`, all
integers big-endian; the key is the offset as u64. The record is the header as a msgpack array, made
once at ingress: frames carry these same bytes, so nothing is encoded again per link.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import attrs
import msgpack

from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.identity import EventId
from broker.event.place import Mark

#: What LMDB hands out: bytes, or a view of the map for as long as the transaction lasts.
Buffer: TypeAlias = bytes | memoryview

_VALUE = struct.Struct(">IQH")
_KEY = struct.Struct(">Q")

_LEVELS = {level.value: level for level in SecurityLevel}
_LIVENESS = {liveness.value: liveness for liveness in Liveness}
_pack = msgpack.Packer().pack


@attrs.define(slots=True, eq=False)
class LoggedEvent:
    """An event with its place in this node's log. Treated as immutable once it is committed.

    Not frozen: one is made per event on the hot path, and a frozen class takes twice as long.
    """

    epoch: int
    offset: int
    arrival: int
    """When the node logged it, ms since 1970; never falls from event to event."""
    level: int
    """Rank of its security level, 0 to 2."""
    record: bytes
    """The header as a msgpack array: see `encode_header`."""
    document: bytes

    @property
    def mark(self) -> Mark:
        """(epoch, offset)."""
        return (self.epoch, self.offset)

    @property
    def size(self) -> int:
        """Bytes it takes in a queue or a frame, about."""
        return len(self.record) + len(self.document) + 64


def encode_header(header: Header) -> bytes:
    """The record of a header: what travels in frames and lies in the log."""
    event_id = header.event_id
    record: bytes = _pack(
        (
            event_id.client_id,
            event_id.timestamp,
            event_id.sequence_number,
            event_id.incarnation,
            header.stream,
            header.type_name,
            header.version,
            header.security_level.value,
            header.liveness.value,
        )
    )
    return record


def header_from_fields(fields: Any) -> Header:
    """The header of an unpacked record; ValueError, TypeError or KeyError if it is none."""
    client_id, timestamp, number, incarnation, stream, name, version, level, liveness = fields
    return Header(
        EventId(client_id, timestamp, number, incarnation),
        stream,
        name,
        version,
        _LEVELS[level],
        _LIVENESS[liveness],
    )


def encode_key(offset: int) -> bytes:
    """The key of an offset; keys sort as offsets do."""
    return _KEY.pack(offset)


def decode_key(key: Buffer) -> int:
    """The offset of a key."""
    (offset,) = _KEY.unpack(key)
    return int(offset)


def encode_event(event: LoggedEvent) -> bytes:
    """The value under which an event is stored."""
    record = event.record
    return _VALUE.pack(event.epoch, event.arrival, len(record)) + record + event.document


def decode_event(offset: int, value: bytes) -> LoggedEvent:
    """The event that `encode_event` wrote."""
    epoch, arrival, length = _VALUE.unpack_from(value)
    start = _VALUE.size
    record = value[start : start + length]
    level = _LEVELS[msgpack.unpackb(record)[7]].rank
    return LoggedEvent(epoch, offset, arrival, level, record, value[start + length :])


def decode_times(value: Buffer) -> tuple[int, int]:
    """(epoch, arrival) of a stored value, without reading the rest."""
    epoch, arrival, _ = _VALUE.unpack_from(value)
    return epoch, arrival
