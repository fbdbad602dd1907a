"""The packets between two ends of a layer that shares bodies.

`docs/protocols/fan-out.md` has their bytes. The first byte is the kind.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

import msgspec

from broker.errors import ProtocolError

COPY: Final = b"\x00"
_PASS, _REFERENCE, _BODY, _REPAIR, _NEED, _ACKNOWLEDGE, _VIEW = range(1, 8)
KEY_BYTES: Final = 32
#: Of a route or a view.
MOST_NAMES: Final = 1_000
MOST_NAME: Final = 256

_COUNTER = struct.Struct(">BQ")

_Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_NAMES)]
_Route: TypeAlias = Annotated[list[tuple[_Name, _Count]], msgspec.Meta(max_length=MOST_NAMES)]
_Key: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
#: Sites in depth-first order, each with the number of those behind it that follow.
Route: TypeAlias = Sequence[tuple[str, int]]


class Body(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A message of a source, to be passed on along a route."""

    source: _Name
    counter: _Number
    route: _Route
    payload: bytes


class Pass(NamedTuple):
    """A message for the receiver in its place, which it also passes on as a body."""

    body: Body


class Reference(NamedTuple):
    """The place of a message whose body comes another way."""

    counter: int
    """Of the bodies of the sender. It rises from reference to reference."""


class Repair(NamedTuple):
    """The body of a reference that the receiver has asked for."""

    counter: int
    payload: bytes


class Need(NamedTuple):
    """The body of a reference has not come."""

    counter: int


class Acknowledge(NamedTuple):
    """The user has finished all messages up to this reference."""

    counter: int


class LinkView(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """First packet for a peer. References of another key or epoch are over."""

    key: _Key
    """Of the process: it authenticates datagrams to a group."""
    epoch: _Number
    connected: Annotated[list[_Name], msgspec.Meta(max_length=MOST_NAMES)]
    """Sites that the sender sees as connected."""


Packet: TypeAlias = Pass | Body | Reference | Repair | Need | Acknowledge | LinkView

_encode = msgspec.msgpack.Encoder().encode
_bodies = msgspec.msgpack.Decoder(Body)
_views = msgspec.msgpack.Decoder(LinkView)


def encode(packet: Packet) -> bytes:
    match packet:
        case Pass(body):
            return bytes([_PASS]) + _encode(body)
        case Body():
            return bytes([_BODY]) + _encode(packet)
        case Reference(counter):
            return _COUNTER.pack(_REFERENCE, counter)
        case Repair(counter, payload):
            return _COUNTER.pack(_REPAIR, counter) + payload
        case Need(counter):
            return _COUNTER.pack(_NEED, counter)
        case Acknowledge(counter):
            return _COUNTER.pack(_ACKNOWLEDGE, counter)
        case LinkView():
            return bytes([_VIEW]) + _encode(packet)


def decode(packet: bytes) -> Packet:
    """Decode a packet that is no COPY. Raises `ProtocolError`."""
    kind = packet[0] if packet else -1
    try:
        match kind:
            case 1:
                return Pass(_bodies.decode(memoryview(packet)[1:]))
            case 2:
                return Reference(_COUNTER.unpack(packet)[1])
            case 3:
                return _bodies.decode(memoryview(packet)[1:])
            case 4:
                return Repair(_COUNTER.unpack_from(packet)[1], packet[_COUNTER.size :])
            case 5:
                return Need(_COUNTER.unpack(packet)[1])
            case 6:
                return Acknowledge(_COUNTER.unpack(packet)[1])
            case 7:
                return _views.decode(memoryview(packet)[1:])
    except (msgspec.MsgspecError, struct.error, ValueError) as error:
        raise ProtocolError(f"malformed packet of the fan-out: {error}") from None
    raise ProtocolError(
        f"a packet of the fan-out has the unknown kind {kind}: is fan_out the same at both sites?"
    )
