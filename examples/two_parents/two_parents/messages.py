"""Messages between a node and its parents, in msgpack."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from broker.errors import BadName, ProtocolError
from broker.event.stream import StreamPattern
from broker.streams.contract import CarriedEvent, CarriedInterest, FlowBatch

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Name = Annotated[str, Meta(max_length=2048)]
Mark = tuple[Count, Count]
#: Place, record, document and level.
Event = tuple[Mark, bytes, bytes, Annotated[int, Meta(ge=0, le=2)]]
#: Pattern, query and namespaces.
Query = tuple[Name, str, dict[str, str]]


class Interest(msgspec.Struct, tag="interest", array_like=True, frozen=True):
    """All interest of a child. It replaces that with another number."""

    number: Count
    queries: Annotated[tuple[Query, ...], Meta(max_length=1000)]

    def interests(self) -> list[CarriedInterest]:
        """Raises `ProtocolError` for a pattern that is none."""
        try:
            return [
                CarriedInterest(StreamPattern.parse(pattern), query, namespaces)
                for pattern, query, namespaces in self.queries
            ]
        except BadName as error:
            raise ProtocolError(f"the interest of a child: {error.text}") from None


class Events(msgspec.Struct, tag="events", array_like=True, frozen=True):
    """A batch of a flow, selected by the child's interest with this number; 0 for a parent."""

    interest: Count
    flow: Name
    origin_node: Name
    after: Mark
    upto: Mark
    events: Annotated[tuple[Event, ...], Meta(max_length=65_536)]

    @classmethod
    def of(cls, batch: FlowBatch, interest: int) -> Events:
        return cls(
            *(interest, batch.flow, batch.origin_node, batch.after, batch.upto),
            tuple((each.mark, each.record, each.document, each.level) for each in batch.events),
        )

    def batch(self) -> FlowBatch:
        events = [CarriedEvent(*each) for each in self.events]
        return FlowBatch(self.flow, self.origin_node, self.after, self.upto, events)


_DECODER: Final = msgspec.msgpack.Decoder(Interest | Events)
encode: Final = msgspec.msgpack.Encoder().encode


def decode(message: bytes) -> Interest | Events:
    """Raises `ProtocolError`."""
    try:
        decoded: Interest | Events = _DECODER.decode(message)
        return decoded
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ProtocolError(f"a message of another node: {error}") from None
