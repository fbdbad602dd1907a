"""Messages of the handshake between two nodes.

The dialling node begins. With a shared key, each side proves that it has the key before any message
describes the cluster. `docs/protocols/organisation.md` shows the sequence.
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
#: fields of version 2 go only over a link that has it (`neighbours.Neighbour.version`).
PROTOCOL_VERSIONS = (1, 2)
#: Random bytes of each side; they make each proof unique.
NONCE_BYTES = 16
#: Purpose of a link: membership in the cluster, or a link between two clusters.
MEMBER, GATEWAY = PURPOSES = ("member", "gateway")
#: Most alternatives that are sent, and accepted.
MOST_ALTERNATIVES = 32
#: Most members that are sent, and accepted.
_MOST_MEMBERS = 1024
_MAX_NETWORK = 64
_PROOF_BYTES = hashlib.sha256().digest_size


class Alternative(NamedTuple):
    address: Address
    endpoint: Endpoint

    @classmethod
    def from_node(cls, node: NodeDescriptor) -> Alternative | None:
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
    """Initiator: first message of a connection."""

    magic: str = attrs.field(converter=fields.text)
    versions: tuple[int, ...] = attrs.field(converter=fields.counts)
    network: str = attrs.field(converter=_network)
    node: NodeDescriptor = attrs.field(converter=_node)
    """A future member's address is in the requested cluster or in no unit."""
    purpose: str = attrs.field(converter=_purpose)
    cluster: UnitPath = attrs.field(converter=_unit)
    """The requested cluster, or a unit with the requested cluster in it."""
    nonce: bytes = attrs.field(converter=_nonce)


@register(0x43)
@attrs.frozen
class NodeChallenge(Message):
    """Responder: request a proof of the key."""

    node: NodeDescriptor = attrs.field(converter=_node)
    nonce: bytes = attrs.field(converter=_nonce)


@register(0x44)
@attrs.frozen
class NodeProof(Message):
    proof: bytes = attrs.field(converter=_proof, repr=False)


@register(0x41)
@attrs.frozen
class NodeWelcome(Message):
    """Responder: the link is up, and the stack starts with the next packet."""

    version: int = attrs.field(converter=fields.count)
    node: NodeDescriptor = attrs.field(converter=_node)
    cluster: UnitPath = attrs.field(converter=_unit)
    """The responder's; a member is in it from now on."""
    admitted: int = attrs.field(converter=fields.count)
    """Time of admission of a member in ms since 1970; 0 for a gateway."""
    members: tuple[NodeDescriptor, ...] = attrs.field(converter=_nodes)
    """Known members of the cluster; none for a gateway."""
    proof: bytes = attrs.field(converter=_proof, default=b"", repr=False)
    """The responder's proof of the key; empty if it requested none."""


@register(0x42)
@attrs.frozen
class NodeRefuse(Message):
    """Either side: refuse the link, with nodes to try instead. The sender then closes."""

    error: WireError = attrs.field(converter=fields.wire_error)
    cluster: UnitPath = attrs.field(converter=_unit, default=())
    """The sender's cluster; empty if it is not disclosed."""
    alternatives: tuple[Alternative, ...] = attrs.field(converter=_alternatives, default=())


# ----------------------------------------------------------------------------- proofs


def initiator_proof(key: bytes, hello: NodeHello, challenge: NodeChallenge) -> bytes:
    """Return the initiator's proof, over all messages so far."""
    return _mac(key, b"dialling", encode(hello), encode(challenge))


def responder_proof(
    key: bytes, hello: NodeHello, challenge: NodeChallenge, welcome: NodeWelcome
) -> bytes:
    """Return the responder's proof, over all messages with the welcome (without its proof)."""
    bare = attrs.evolve(welcome, proof=b"")
    return _mac(key, b"answering", encode(hello), encode(challenge), encode(bare))


def proofs_equal(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)


def _mac(key: bytes, role: bytes, *parts: bytes) -> bytes:
    # The role is covered too, so a proof can not be reflected to its author.
    sums = [hashlib.sha256(part).digest() for part in (role, *parts)]
    return hmac.digest(key, b"".join(sums), "sha256")
