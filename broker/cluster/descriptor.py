"""Descriptor of a node: identity, endpoints and capabilities (Mspaces M8)."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec import Meta

from broker.cluster.address import Address
from broker.event.origin import ORIGIN
from broker.wire.codec import Count, Rank, Schema

#: Low, med and high.
CLEARANCES = range(3)
_FEW: Final = Meta(max_length=16)
Host: TypeAlias = Annotated[str, Meta(pattern=r"\A[!-~]{1,255}\Z")]
Port: TypeAlias = Annotated[int, Meta(ge=1, le=65_535)]
ShortName: TypeAlias = Annotated[str, Meta(pattern=r"\A[a-z0-9-]{1,32}\Z")]


class Endpoint(NamedTuple):
    host: Host
    port: Port


class MulticastGroup(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    group: Host
    port: Port
    interface: Annotated[str, Meta(pattern=r"\A[!-~]{0,64}\Z")]
    """Empty: the system's choice."""

    def __post_init__(self) -> None:
        if not ipaddress.ip_address(self.group).is_multicast:
            raise ValueError(f"{self.group} is no multicast group")


class NodeDescriptor(NamedTuple):
    """Descriptor of a node: identity, endpoints and capabilities (Mspaces M8).

    Neighbours get it in the handshake, other members in a table. On the wire it is an array of the
    fields in their order.
    """

    address: Address
    origin: Annotated[str, Meta(pattern=rf"\A(?:{ORIGIN.pattern})\Z")]
    incarnation: Count
    versions: Annotated[tuple[Count, ...], _FEW]
    """Of the protocol between nodes."""
    tcp: Endpoint | None = None
    udp: Endpoint | None = None
    multicast: MulticastGroup | None = None
    clearance: Rank = CLEARANCES[-1]
    draining: bool = False
    """It accepts no new links, and transit only without another route."""
    compressions: Annotated[tuple[ShortName, ...], _FEW] = ()
    admitted: Count = 0
    """Ms since 1970, by the clock of the admitting member; 0: configured.

    It decides which nodes leave an overfull cluster. With different clocks all members still agree.
    """

    @property
    def name(self) -> str:
        return self.address.node

    def to_plain(self) -> tuple[Any, ...]:
        group = self.multicast and msgspec.structs.astuple(self.multicast)
        return tuple(
            tuple(field) if isinstance(field, tuple) else field
            for field in self._replace(multicast=group)  # type: ignore[arg-type]
        )

    @classmethod
    def from_plain(cls, value: Any) -> NodeDescriptor:
        """Raises `ProtocolError`."""
        return _SCHEMA.convert(value)


# The defaults are for constructors: on the wire no field may be absent.
NodeDescriptor._field_defaults = {}
_SCHEMA: Final = Schema[NodeDescriptor](NodeDescriptor, "description of a node")
