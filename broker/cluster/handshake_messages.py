"""Messages of the handshake between two nodes.

With a shared key, each side proves it before any message describes the cluster.
`docs/protocols/organisation.md` shows the sequence.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from broker.cluster.address import Address, UnitPath
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.map.name_bindings import SignedDescriptor
from broker.cluster.messages import CODEC, Message, encode
from broker.wire.codec import Count, WireErrorFields

MAGIC = "xmlbroker-node"
#: Commit 55c726e and earlier speak 1 alone.
PROTOCOL_VERSIONS = (1, 2, 3, 5, 6)
NONCE_BYTES = 16
MEMBER, GATEWAY = PURPOSES = ("member", "gateway")
#: Begins the purpose of a transport's link. The name of its stack follows, at most 256 characters.
LINKS = "links of "
MOST_ALTERNATIVES = 32
_MOST_MEMBERS = 1024
_MAX_NETWORK = 64
_PROOF_BYTES = hashlib.sha256().digest_size


_Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]


class Alternative(NamedTuple):
    address: Address
    endpoint: Endpoint

    @classmethod
    def from_node(cls, node: NodeDescriptor) -> Alternative | None:
        return cls(node.address, node.tcp) if node.tcp else None


def _check_proof(proof: bytes) -> None:
    if len(proof) not in (0, _PROOF_BYTES):
        raise ValueError("not a proof")


@CODEC.register
class NodeHello(Message, frozen=True):
    """Initiator: first message of a connection."""

    kind = 0x40

    magic: str
    versions: tuple[Count, ...]
    network: Annotated[str, Meta(max_length=_MAX_NETWORK)]
    node: NodeDescriptor
    """A future member's address is in the requested cluster or in no unit."""
    purpose: Annotated[str, Meta(pattern=rf"\A({MEMBER}|{GATEWAY}|{LINKS}.{{1,256}})\Z")]
    cluster: UnitPath
    """The requested cluster, or a unit around it."""
    nonce: _Nonce


@CODEC.register
class NodeChallenge(Message, frozen=True):
    """Responder: request a proof of the key."""

    kind = 0x43

    node: NodeDescriptor
    nonce: _Nonce


@CODEC.register
class NodeProof(Message, frozen=True):
    kind = 0x44

    proof: bytes

    def __post_init__(self) -> None:
        _check_proof(self.proof)


@CODEC.register
class NodeWelcome(Message, frozen=True):
    """Responder: the link is up, and the stack starts with the next packet."""

    kind = 0x41

    version: Count
    node: NodeDescriptor
    cluster: UnitPath
    """The responder's; a member is in it from now on."""
    admitted: Count
    """Ms since 1970; 0 for a gateway."""
    members: Annotated[tuple[NodeDescriptor, ...], Meta(max_length=_MOST_MEMBERS)]
    """None for a gateway."""
    proof: bytes = b""
    """Empty if the responder requested none."""

    def __post_init__(self) -> None:
        _check_proof(self.proof)


@CODEC.register
class NodeRefuse(Message, frozen=True):
    """Either side: refuse the link. The sender then closes."""

    kind = 0x42
    omitted = 1

    error: WireErrorFields
    cluster: UnitPath = ()
    """Empty if it is not disclosed."""
    alternatives: Annotated[tuple[Alternative, ...], Meta(max_length=MOST_ALTERNATIVES)] = ()
    later: Annotated[tuple[SignedDescriptor, ...], Meta(max_length=1)] = ()
    """With `cloned`: the later process, as its tables describe it. Since version 6."""


def initiator_proof(key: bytes, hello: NodeHello, challenge: NodeChallenge) -> bytes:
    return _mac(key, b"dialling", encode(hello), encode(challenge))


def responder_proof(
    key: bytes, hello: NodeHello, challenge: NodeChallenge, welcome: NodeWelcome
) -> bytes:
    bare = msgspec.structs.replace(welcome, proof=b"")
    return _mac(key, b"answering", encode(hello), encode(challenge), encode(bare))


def proofs_equal(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)


def _mac(key: bytes, role: bytes, *parts: bytes) -> bytes:
    # The role is covered too, so a proof can not be reflected to its author.
    sums = [hashlib.sha256(part).digest() for part in (role, *parts)]
    return hmac.digest(key, b"".join(sums), "sha256")
