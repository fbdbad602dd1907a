"""Messages between a node and the neighbour with its replica (`docs/protocols/replicas.md`)."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from broker.cluster.messages import CODEC, Message
from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.log.chunk import Chunk, encode_chunk
from broker.log.commit import ReplicaBatch
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import WireMark

REPLICA_EVENTS = 0x65
_HEAD = struct.Struct(">BIQIQ")


@CODEC.register
class ReplicaRequest(Message, frozen=True):
    """Store a replica of the sender's origin, and return its state."""

    kind = 0x63

    origin: str


@CODEC.register
class ReplicaState(Message, frozen=True):
    """The replica has all events in (after, upto]; twice (0, 0) if empty."""

    kind = 0x64

    origin: str
    after: WireMark
    upto: WireMark


def encode_replica_events(after: Mark, upto: Mark, events: Sequence[LoggedEvent]) -> bytes:
    return _HEAD.pack(REPLICA_EVENTS, *after, *upto) + (encode_chunk(events) if events else b"")


def decode_replica_events(data: bytes, origin: str) -> ReplicaBatch:
    """Raises `ProtocolError` for a malformed message or another origin."""
    try:
        _, epoch, offset, last_epoch, last_offset = _HEAD.unpack_from(data)
        stored = data[_HEAD.size :]
        events = list(Chunk(0, stored).events_from(0)) if stored else []
        if events and (events[0].origin != origin or encode_chunk(events) != stored):
            raise ValueError("another origin, or not the exact encoding")
        marks = [(epoch, offset), *(event.mark for event in events)]
        rising = all(one < other for one, other in zip(marks, marks[1:], strict=False))
        if not rising or marks[-1] > (last_epoch, last_offset):
            raise ValueError("places do not ascend")
        if any(not event.document or event.level > 2 for event in events):
            raise ValueError("invalid event")
        return ReplicaBatch(origin, (epoch, offset), (last_epoch, last_offset), events)
    except (ValueError, LookupError, struct.error):
        raise ProtocolError("malformed REPLICA_EVENTS message") from None
