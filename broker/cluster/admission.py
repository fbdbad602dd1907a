"""Admission rules for cluster members and gateways (Mspaces G3)."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import attrs

from broker.cluster.address import UnitPath, is_within, unit_text
from broker.cluster.clone_detection import clone_error, endpoint_text, is_later_clone
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_core import Refusal
from broker.cluster.handshake_messages import (
    GATEWAY,
    MEMBER,
    MOST_ALTERNATIVES,
    PURPOSES,
    Alternative,
    NodeHello,
)
from broker.cluster.map.name_bindings import SignedDescriptor
from broker.cluster.network_segment import IpNetwork
from broker.errors import (
    AddressNotAllowed,
    BrokerError,
    Cloned,
    ClusterFull,
    IncarnationRefused,
    NameTaken,
    Overloaded,
    ShuttingDown,
    TooManyLinks,
    WrongNetwork,
)

AddressRule: TypeAlias = Callable[[str], bool]


@attrs.frozen
class IpRules:
    """Allowed IP addresses of the nodes of a cluster (M2)."""

    allow: tuple[IpNetwork, ...] = ()
    """Empty: all addresses."""
    deny: tuple[IpNetwork, ...] = ()
    """Overrides `allow`."""
    segments: Callable[[], tuple[IpNetwork, ...]] | None = None
    """Returns the networks of this node's interfaces; a member must be on one (K31)."""

    def allows(self, host: str) -> bool:
        """Without any rule, `host` need not be an IP address."""
        try:
            ip = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return not (self.allow or self.deny or self.segments)
        if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped:
            ip = ip.ipv4_mapped
        if any(ip in network for network in self.deny):
            return False
        if self.allow and not any(ip in network for network in self.allow):
            return False
        return self.segments is None or any(ip in network for network in self.segments())


@attrs.frozen
class AdmissionRules:
    most_nodes: int
    """The same at all nodes of the cluster."""
    most_links: Mapping[str, int]
    """By transport; a missing one allows no links (M4)."""
    is_address_allowed: AddressRule = IpRules().allows
    """Also applied to members that this node dials."""


@attrs.frozen
class AdmissionContext:
    own: NodeDescriptor
    members: Mapping[str, NodeDescriptor]
    """With this node and the nodes that hold a lease."""
    links: Mapping[str, int]
    degrees: Mapping[str, int]
    """Links per member, as far as known."""
    other_clusters: Sequence[Alternative]
    linked: Mapping[str, tuple[NodeDescriptor, str]] = attrs.field(factory=dict)
    """With the address of each neighbour."""
    reachable: frozenset[str] = frozenset()
    is_overloaded: bool = False
    """This node is behind with its work (M7)."""
    described: Callable[[str], Iterator[SignedDescriptor]] = lambda _: iter(())
    """Returns what tables in the name of a node describe."""


def find_refusal(
    hello: NodeHello, host: str, transport: str, rules: AdmissionRules, context: AdmissionContext
) -> Refusal | None:
    """The handshake has checked magic, version, network and key before."""
    for error in _find_errors(hello, host, transport, rules, context):
        later = tuple(_find_later(hello, context)) if isinstance(error, Cloned) else ()
        return Refusal(error, _alternatives(error, hello, context), later)
    return None


def surplus_members(members: Mapping[str, NodeDescriptor], most_nodes: int) -> tuple[str, ...]:
    """Return the members that must leave an overfull cluster (M1).

    Two members may admit a node each at the same time. All members apply this to the same map: the
    last admitted leave, by time of admission and name. Configured members count as first.
    """
    order = sorted(members.values(), key=lambda node: (node.admitted, node.name))
    return tuple(node.name for node in order[most_nodes:])


def is_same_node(known: NodeDescriptor, node: NodeDescriptor) -> bool:
    return (known.name, known.origin) == (node.name, node.origin) and (
        node.incarnation >= known.incarnation
    )


def _find_errors(
    hello: NodeHello, host: str, transport: str, rules: AdmissionRules, context: AdmissionContext
) -> Iterator[BrokerError]:
    own, node = context.own, hello.node
    if not is_within(own.address.unit, hello.cluster):
        yield WrongNetwork(
            f"{own.name} is of the cluster {_unit_name(own.address.unit)},"
            f" and {node.name} asks for a link to {_unit_name(hello.cluster)}"
        )
    known = context.members.get(node.name)
    linked, place = context.linked.get(node.name, (node, ""))
    if is_later_clone(linked, node):
        yield clone_error(node.name, host, place)
    if known and node.name in context.reachable and is_later_clone(known, node):
        yield clone_error(node.name, host, endpoint_text(known))
    if (node.name, node.origin) == (own.name, own.origin):
        yield NameTaken(f"{node.name} has dialled itself: remove its own address from its settings")
    if node.name == own.name or (known and known.origin != node.origin):
        yield NameTaken(f"another node has the node.name {node.name}")
    if known and node.incarnation < known.incarnation:
        yield IncarnationRefused(f"a later process of {node.name} is known")
    if own.draining:
        yield ShuttingDown("this node is about to leave")
    if hello.purpose == GATEWAY:
        yield from _find_gateway_errors(own.address.unit, node.address.unit)
    elif hello.purpose == MEMBER:
        if not rules.is_address_allowed(host):
            yield AddressNotAllowed(f"no node at {host[:80]} may be in this cluster")
        if context.is_overloaded and node.name not in context.members:
            yield Overloaded(
                "this node is behind with its events, and takes no new members for now"
            )
        if not _has_room(node, context, rules.most_nodes):
            yield ClusterFull(f"this cluster has {rules.most_nodes} nodes, and takes no more")
    most_links = rules.most_links.get(transport, 0)
    # Links of stacks have bounds of their own.
    if hello.purpose in PURPOSES and context.links.get(transport, 0) >= most_links:
        yield TooManyLinks(f"this node takes {most_links} links over {transport}, and has them")


def _find_later(hello: NodeHello, context: AdmissionContext) -> Iterator[SignedDescriptor]:
    for each in context.described(hello.node.name):
        if is_later_clone(each.node, hello.node):
            yield each
            return


def _has_room(node: NodeDescriptor, context: AdmissionContext, most_nodes: int) -> bool:
    members = context.members
    if node.name not in members:
        if node.address.unit != context.own.address.unit:
            return len(members) < most_nodes
        # All members choose the surplus from one map.
        members = {**members, node.name: node}
    # A surplus member that has left must not rejoin through another member.
    return node.name not in surplus_members(members, most_nodes)


def _find_gateway_errors(own: UnitPath, far: UnitPath) -> Iterator[BrokerError]:
    if own == far:
        yield WrongNetwork(
            f"both nodes are of the cluster {_unit_name(own)}: name the address in network.join,"
            " network.gateways are for other clusters"
        )
    elif is_within(own, far) or is_within(far, own):
        yield WrongNetwork(f"{_unit_name(far)} and {_unit_name(own)} can not both be clusters")


def _alternatives(
    error: BrokerError, hello: NodeHello, context: AdmissionContext
) -> tuple[Alternative, ...]:
    if isinstance(error, Cloned | NameTaken | IncarnationRefused):
        return ()
    others = [
        other for other in context.other_clusters if is_within(other.address.unit, hello.cluster)
    ]
    if isinstance(error, TooManyLinks | ShuttingDown | Overloaded):
        members = sorted(
            context.members.values(),
            key=lambda node: (context.degrees.get(node.name, 0), node.name),
        )
        others = [
            alternative
            for node in members
            if not node.draining and node.name not in (context.own.name, hello.node.name)
            if (alternative := Alternative.from_node(node))
        ] + others
    return tuple(others[:MOST_ALTERNATIVES])


def _unit_name(unit: UnitPath) -> str:
    return unit_text(unit) or "(the whole network)"
