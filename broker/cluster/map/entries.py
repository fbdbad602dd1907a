"""Entries of the tables that form the map (Mspaces G5), to and from plain values.

`docs/protocols/organisation.md` lists them. An edge needs the entries of both ends. The `process`
table only reveals a second process under the same name.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from msgspec import Meta

from broker.cluster.address import (
    Address,
    UnitPath,
    check_name,
    child_towards,
    common_prefix,
)
from broker.cluster.descriptor import Endpoint, ShortName
from broker.errors import BadName, ProtocolError
from broker.wire.codec import Rank, Schema

NODE = "node"
UNIT_LINKS = "unit-links"
PROCESS = "process"
SELF = "self"
#: Entry beside a descriptor (`broker.cluster.map.name_bindings`). Earlier versions refuse it alone.
PROOF = "proof"
LINK = "link:"

#: Keeps the sums of costs small on any route.
MAX_COST = 1 << 24
Cost: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_COST)]


class NodeLink(NamedTuple):
    cost: Cost
    clearance: Rank
    transport: ShortName


class UnitLink(NamedTuple):
    """One end of a link between clusters."""

    unit: str
    """Child of the context that contains this end."""
    far_unit: str
    own: Address
    far: Address
    cost: int
    clearance: int
    endpoint: Endpoint | None

    def to_plain(self) -> tuple[Any, ...]:
        own, far = str(self.own), str(self.far)
        endpoint = self.endpoint and tuple(self.endpoint)
        return (self.unit, self.far_unit, own, far, self.cost, self.clearance, endpoint)


_NODE_LINK: Final = Schema[NodeLink](NodeLink, "link of a node")
_WireUnitLink: TypeAlias = tuple[str, str, str, str, Cost, Rank, Endpoint | None]
_UNIT_LINK: Final = Schema[_WireUnitLink](_WireUnitLink, "link of units")


def parse_link_key(name: str) -> str:
    if not name.startswith(LINK):
        raise ProtocolError(f"not a link entry: {name[:80]!r}")
    try:
        return check_name(name[len(LINK) :])
    except BadName as error:
        raise ProtocolError(str(error)) from None


def parse_node_link(value: Any) -> NodeLink:
    """Raises `ProtocolError`."""
    return _NODE_LINK.convert(value)


def parse_unit_link(value: Any, context: UnitPath, author: str, far_node: str) -> UnitLink:
    """Raises `ProtocolError` unless the ends are in two children of `context`."""
    unit, far_unit, own, far, cost, clearance, endpoint = _UNIT_LINK.convert(value)
    try:
        ends = Address.parse(own), Address.parse(far)
        link = UnitLink(unit, far_unit, *ends, cost, clearance, endpoint)
        if common_prefix(link.own.unit, link.far.unit) != context:
            raise ValueError("the ends belong to another context")
        if link.own.node != author or link.far.node != far_node:
            raise ValueError("the ends are other nodes")
        if len(context) in (len(link.own.unit), len(link.far.unit)):
            raise ValueError("an end is in no child of the context")
        names = (child_towards(context, link.own.unit), child_towards(context, link.far.unit))
        if names != (unit, far_unit):
            raise ValueError("the ends are in other units")
        return link
    except (ValueError, BadName) as error:
        raise ProtocolError(f"malformed link of units: {error}") from None
