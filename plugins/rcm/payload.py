"""Payload of a message of a group: one event, with its range of the origin's flow."""

from __future__ import annotations

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


class _Fields(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(max_length=256)]
    origin_node: Annotated[str, msgspec.Meta(max_length=1024)]
    after: _Mark
    upto: _Mark
    mark: _Mark
    level: Annotated[int, msgspec.Meta(ge=0, le=2)]
    record: bytes
    document: bytes


_decoder = msgspec.msgpack.Decoder(_Fields)
_encode = msgspec.msgpack.Encoder().encode


@attrs.frozen
class Payload:
    """An event: the range (after, upto] of its flow has no other one."""

    pattern: str
    origin_node: str
    """Address of the node that serves the origin's log."""
    after: Mark
    upto: Mark
    event: CarriedEvent

    def flow_of(self, origin: str) -> str:
        return make_flow(origin, self.pattern)


def encode_payload(payload: Payload) -> bytes:
    event = payload.event
    return _encode(
        _Fields(
            *(payload.pattern, payload.origin_node, payload.after, payload.upto),
            *(event.mark, event.level, event.record, event.document),
        )
    )


def decode_payload(data: bytes) -> Payload:
    """Raises `ProtocolError`."""
    try:
        found = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed event of a group: {error}") from None
    if not found.after < found.mark <= found.upto:
        raise ProtocolError("the place of an event is not in its range")
    event = CarriedEvent(found.mark, found.record, found.document, found.level)
    return Payload(found.pattern, found.origin_node, found.after, found.upto, event)
