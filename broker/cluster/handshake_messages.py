"""What two nodes say before there is a link between them.

The one that dials begins. With a shared key each side proves that it has it before anything about
the cluster is told; `docs/protocols/organisation.md` shows who says what when.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, NamedTuple

import attrs

from broker.cluster.address import Address, UnitPath, check_unit
from broker.cluster.descriptor import Endpoint, NodeDescriptor, checked_address, checked_endpoint
from broker.cluster.messages import Message, encode, register
from broker.errors import WireError
from broker.wire import fields

MAGIC = "xmlbroker-node"
#: Versions of the protocol between nodes. Commit 55c726e and earlier speak 1 alone. Messages and
#: fields of version 2 go only over a link that has it (`neighbours.LinkState.version`).
PROTOCOL_VERSIONS = (1, 2)
#: Random bytes that each side adds, so that no proof is good twice.
NONCE_BYTES = 16
#: Why a link is wanted: to be a member of the cluster, or to link two clusters.
MEMBER, GATEWAY = PURPOSES = ("member", "gateway")
#: More places to try instead are not named, nor taken.
MOST_ALTERNATIVES = 32
#: More members are not named, nor taken.
_MOST_MEMBERS = 1024
_MAX_NETWORK = 64
_PROOF_BYTES = hashlib.sha256().digest_size


class Alternative(NamedTuple):
    """A node to ask instead, and where it listens."""

    address: Address
    endpoint: Endpoint

    @classmethod
    def from_node(cls, node: NodeDescriptor) -> Alternative | None:
        """The node that is described, if it can be dialled."""
        return cls(node.address, node.tcp) if node.tcp else None


def _node(value: Any) -> NodeDescriptor:
    return value if isinstance(value, NodeDescriptor) else NodeDescriptor.from_plain(value)


def _nodes(value: Any) -> tuple[NodeDescriptor, ...]:
    if len(value) > _MOST_MEMBERS:
        raise ValueError("too many members")
    return tuple(_node(each) for each in value)


def _unit(value: Any) -> UnitPath:
    return check_unit(fields.text_list(value))


def _network(value: Any) -> str:
    if len(fields.text(value)) > _MAX_NETWORK:
        raise ValueError("a network's name is too long")
    return fields.text(value)


def _purpose(value: Any) -> str:
    if value not in PURPOSES:
        raise ValueError("no such purpose")
    return fields.text(value)


def _nonce(value: Any) -> bytes:
    if len(fields.octets(value)) != NONCE_BYTES:
        raise ValueError("not a nonce")
    return fields.octets(value)


def _proof(value: Any) -> bytes:
    if len(fields.octets(value)) not in (0, _PROOF_BYTES):
        raise ValueError("not a proof")
    return fields.octets(value)


def _alternatives(value: Any) -> tuple[Alternative, ...]:
    if len(value) > MOST_ALTERNATIVES:
        raise ValueError("too many alternatives")
    return tuple(_alternative(*each) for each in value)


def _alternative(address: Any, endpoint: Any) -> Alternative:
    return Alternative(checked_address(address), checked_endpoint(endpoint))


@register(0x40)
@attrs.frozen
class NodeHello(Message):
    """Dialling node: the first message of a connection."""

    magic: str = attrs.field(converter=fields.text)
    versions: tuple[int, ...] = attrs.field(converter=fields.counts)
    network: str = attrs.field(converter=_network)
    node: NodeDescriptor = attrs.field(converter=_node)
    """Itself. One that is to become a member stands in the cluster that it wants, or in none."""
    purpose: str = attrs.field(converter=_purpose)
    cluster: UnitPath = attrs.field(converter=_unit)
    """What it wants a link to: a cluster, or any in this unit."""
    nonce: bytes = attrs.field(converter=_nonce)


@register(0x43)
@attrs.frozen
class NodeChallenge(Message):
    """Answering node: prove that you have the key."""

    node: NodeDescriptor = attrs.field(converter=_node)
    nonce: bytes = attrs.field(converter=_nonce)


@register(0x44)
@attrs.frozen
class NodeProof(Message):
    """Dialling node: here it is."""

    proof: bytes = attrs.field(converter=_proof, repr=False)


@register(0x41)
@attrs.frozen
class NodeWelcome(Message):
    """Answering node: the link is up; the stack speaks from the next packet on."""

    version: int = attrs.field(converter=fields.count)
    node: NodeDescriptor = attrs.field(converter=_node)
    cluster: UnitPath = attrs.field(converter=_unit)
    """Its cluster: for a member, from now on the dialling node's, too."""
    admitted: int = attrs.field(converter=fields.count)
    """When the dialling node came to be a member, in ms since 1970; for a gateway 0."""
    members: tuple[NodeDescriptor, ...] = attrs.field(converter=_nodes)
    """Those known in the cluster; for a gateway none."""
    proof: bytes = attrs.field(converter=_proof, default=b"", repr=False)
    """That it has the key, too; empty where it asked for none."""


@register(0x42)
@attrs.frozen
class NodeRefuse(Message):
    """Either node: there will be no link, why, and whom to ask instead. The sender then closes."""

    error: WireError = attrs.field(converter=fields.wire_error)
    cluster: UnitPath = attrs.field(converter=_unit, default=())
    """The sender's; empty where that is not told."""
    alternatives: tuple[Alternative, ...] = attrs.field(converter=_alternatives, default=())


# ----------------------------------------------------------------------------- proofs


def initiator_proof(key: bytes, hello: NodeHello, challenge: NodeChallenge) -> bytes:
    """That the dialling node has the key: over all that was said, nonces and descriptions."""
    return _mac(key, b"dialling", encode(hello), encode(challenge))


def responder_proof(
    key: bytes, hello: NodeHello, challenge: NodeChallenge, welcome: NodeWelcome
) -> bytes:
    """That the answering node has the key and said what the welcome says (but its proof)."""
    bare = attrs.evolve(welcome, proof=b"")
    return _mac(key, b"answering", encode(hello), encode(challenge), encode(bare))


def proofs_equal(one: bytes, other: bytes) -> bool:
    """Compares in a time that tells nothing."""
    return hmac.compare_digest(one, other)


def _mac(key: bytes, role: bytes, *parts: bytes) -> bytes:
    # Who says it is covered too, so that nobody's own proof can be sent back as the other's.
    sums = [hashlib.sha256(part).digest() for part in (role, *parts)]
    return hmac.digest(key, b"".join(sums), "sha256")
