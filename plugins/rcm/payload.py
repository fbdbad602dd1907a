"""Payload of a message of a group: events with their range of the origin's flow, or bytes."""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias

import attrs
import msgspec

from broker.errors import ProtocolError
from broker.event.flow import make_flow
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent

_Mark: TypeAlias = tuple[
    Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)],
    Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)],
]


#: Bytes in one message that is no event.
MOST_DATA = 1 << 20
#: Events of one run.
MOST_EVENTS = 1_000


#: Place, record, document, and rank of the security level.
_Event: TypeAlias = tuple[_Mark, bytes, bytes, Annotated[int, msgspec.Meta(ge=0, le=2)]]


class Channel(enum.IntEnum):
    """The part of a site that gets a message."""

    CLIENTS = 1
    SITES = 2


class _Events(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=1):
    pattern: Annotated[str, msgspec.Meta(max_length=256)]
    origin_node: Annotated[str, msgspec.Meta(max_length=1024)]
    after: _Mark
    upto: _Mark
    events: Annotated[list[_Event], msgspec.Meta(min_length=1, max_length=MOST_EVENTS)]


class ChannelMessage(
    msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=2
):
    """A message that is no event. Its data has another codec."""

    channel: Channel
    data: Annotated[bytes, msgspec.Meta(max_length=MOST_DATA)]


_decoder = msgspec.msgpack.Decoder(_Events | ChannelMessage)
_encode = msgspec.msgpack.Encoder().encode


@attrs.frozen
class Payload:
    """The events of a message or run: all those in the range (after, upto] of their flow."""

    pattern: str
    origin_node: str
    """Address of the node that serves the origin's log."""
    after: Mark
    upto: Mark
    events: list[CarriedEvent]

    def flow_of(self, origin: str) -> str:
        return make_flow(origin, self.pattern)


def encode_payload(payload: Payload | ChannelMessage) -> bytes:
    if isinstance(payload, ChannelMessage):
        return _encode(payload)
    of = payload.pattern, payload.origin_node, payload.after, payload.upto, payload.events
    # An event is a tuple of these fields.
    return _encode(_Events(*of))  # type: ignore[arg-type]


def decode_payload(data: bytes) -> Payload | ChannelMessage:
    """Raises `ProtocolError`."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed message of a group: {error}") from None
    if isinstance(found, ChannelMessage):
        return found
    events = [CarriedEvent(*each) for each in found.events]
    before = found.after
    for event in events:
        if event.mark <= before:
            raise ProtocolError("the places of events do not rise in their range")
        before = event.mark
    if before > found.upto:
        raise ProtocolError("the place of an event is not in its range")
    return Payload(found.pattern, found.origin_node, found.after, found.upto, events)
