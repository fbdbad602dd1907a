"""The entries of the two tables that the map is made of, to and from plain values.

`node`: a node about itself, to its cluster: `self` is its description, `link:<node>` a link inside
the cluster. `unit-links`: a gateway to all in the unit that it links two children of (Mspaces G5):
`link:<far node>` is one link. An edge counts when both its ends tell of it.

`process`: a gateway about itself, where it has `unit-links`: `self` is its description. No map is
made of it. Another process under the same name learns of this one by it (`broker.cluster.clone_detection`).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from broker.cluster.address import (
    Address,
    UnitPath,
    check_name,
    child_towards,
    common_prefix,
)
from broker.cluster.descriptor import Endpoint, check_rank, checked_endpoint
from broker.errors import BadName, ProtocolError
from broker.wire.fields import count

NODE = "node"
UNIT_LINKS = "unit-links"
PROCESS = "process"
SELF = "self"
LINK = "link:"

#: Sums of costs stay small numbers, however long the way.
MAX_COST = 1 << 24
_TRANSPORT = re.compile(r"[a-z0-9-]{1,32}")


class NodeLink(NamedTuple):
    """One end of a link inside a cluster, as the node at this end tells of it."""

    cost: int
    clearance: int
    transport: str


class UnitLink(NamedTuple):
    """One end of a link between two clusters, as the gateway at this end tells of it."""

    unit: str
    """The child of the context that this end is in."""
    far_unit: str
    own: Address
    far: Address
    cost: int
    clearance: int
    endpoint: Endpoint | None
    """Where the far end takes requests for links."""

    def to_plain(self) -> tuple[Any, ...]:
        """The entry's value."""
        own, far = str(self.own), str(self.far)
        endpoint = self.endpoint and tuple(self.endpoint)
        return (self.unit, self.far_unit, own, far, self.cost, self.clearance, endpoint)


def parse_link_key(name: str) -> str:
    """The node at the far end of the link that the entry `name` is about."""
    if not name.startswith(LINK):
        raise ProtocolError(f"no entry of a map: {name[:80]!r}")
    try:
        return check_name(name[len(LINK) :])
    except BadName as error:
        raise ProtocolError(str(error)) from None


def parse_node_link(value: Any) -> NodeLink:
    """The link that an entry of a `node` table tells of; `ProtocolError` if it tells of none."""
    try:
        price, clearance, transport = value
        if not (isinstance(transport, str) and _TRANSPORT.fullmatch(transport)):
            raise TypeError("not the name of a transport")
        return NodeLink(check_cost(price), check_rank(clearance), transport)
    except (ValueError, TypeError) as error:
        raise ProtocolError(f"no link of a node: {error}") from None


def parse_unit_link(value: Any, context: UnitPath, author: str, far_node: str) -> UnitLink:
    """The link that an entry of `author`'s `unit-links` table for `context` tells of.

    `ProtocolError` if it tells of none, or of one that is not between two children of `context`.
    """
    try:
        unit, far_unit, own, far, price, clearance, endpoint = value
        link = UnitLink(
            *(unit, far_unit, Address.parse(own), Address.parse(far)),
            *(check_cost(price), check_rank(clearance)),
            None if endpoint is None else checked_endpoint(endpoint),
        )
        if common_prefix(link.own.unit, link.far.unit) != context:
            raise ValueError("its ends are of another context")
        if link.own.node != author or link.far.node != far_node:
            raise ValueError("its ends are other nodes")
        if len(context) in (len(link.own.unit), len(link.far.unit)):
            raise ValueError("one end is in no child of the context")
        names = (child_towards(context, link.own.unit), child_towards(context, link.far.unit))
        if names != (unit, far_unit):
            raise ValueError("its ends are in other units")
        return link
    except (ValueError, TypeError, AttributeError, BadName) as error:
        raise ProtocolError(f"no link of units: {error}") from None


def check_cost(value: Any) -> int:
    """What a link costs; `TypeError` for anything else."""
    if not 1 <= count(value) <= MAX_COST:
        raise TypeError("not a cost")
    return count(value)
