"""Tickets of clients that join a mesh (DCP T41).

The node of a client's session signs a ticket with its own key, to which the name of its log belongs
(`broker.signatures`). Each router of the mesh verifies it. A node whose log is not signed issues
tickets without a signature, as nodes of earlier versions do.

Each ticket has a tag, too. All nodes derive its key from `network.key_file`, so that hosts outside
of the network are refused before a signature is checked. Without that file, which only nodes on the
loopback interface may lack, the tag detects damage, as their other tags do.

A ticket is readable on the wire. Its *proof key* is not: the client gets it over its session, and
routers derive it. With it both prove their right to a link, by keys that only this link has. So a
ticket that others have seen is of no use to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import blake2b
from hmac import compare_digest
from typing import Annotated, Final

import attrs
import msgspec
from msgspec import Meta
from msgspec.structs import replace

from broker.errors import AuthenticationFailed, BadName
from broker.event.envelope import SecurityLevel
from broker.event.origin import origin_has_key
from broker.event.stream import StreamPattern
from broker.order_certificates.signing_key import SigningKey, has_signed
from broker.wire.codec import Rank

#: The question of a client to its node (`broker.wire.messages.Ask`).
TICKET_REQUEST: Final = "mesh-ticket"
#: Time for which a ticket is valid, and difference of the nodes' clocks that is allowed.
TICKET_SECONDS: Final = 300.0
LEEWAY_SECONDS: Final = 30.0
MOST_TICKET_BYTES: Final = 4_096
PROOF_BYTES: Final = 32
HIGHEST: Final = SecurityLevel.HIGH.rank
_TAG_BYTES: Final = 32
_OF_CLIENT: Final = b"xmlbroker-client"
_OF_PARENT: Final = b"xmlbroker-parent"
_PERSON: Final = b"xmlbroker-ticket"
_DOMAIN: Final = b"xmlbroker mesh ticket 1\0"

_Name = Annotated[str, Meta(max_length=255)]


class Issuer(msgspec.Struct, array_like=True, frozen=True):
    """The node that has signed a ticket."""

    origin: _Name
    """Name of its log."""
    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


class Ticket(msgspec.Struct, array_like=True, frozen=True):
    stack: _Name
    """Name of the mesh."""
    client_id: _Name
    patterns: Annotated[tuple[_Name, ...], Meta(max_length=16)]
    """Streams that the client may read."""
    clearance: Rank
    """Rank of its highest security level."""
    expires: Annotated[int, Meta(ge=0, le=2**62)]
    """Ms since 1970."""
    issuer: Issuer | None = None
    """None from a node whose log is not signed. Nodes of earlier versions skip it."""

    @property
    def rights(self) -> tuple[object, ...]:
        return self.stack, self.client_id, self.patterns, self.clearance

    def covers(self, pattern: str) -> bool:
        """Return whether the client may read all streams of a pattern."""
        try:
            asked = StreamPattern.parse(pattern)
            return any(StreamPattern.parse(each).covers(asked) for each in self.patterns)
        except BadName:
            return False


_encode: Final = msgspec.msgpack.Encoder().encode
_DECODER: Final = msgspec.msgpack.Decoder(Ticket)


def derive_ticket_key(secret: bytes) -> bytes:
    """Return the key of tickets for the secret of a network; an empty secret gives none."""
    return blake2b(secret, digest_size=32, person=_PERSON).digest() if secret else b""


@attrs.frozen
class ClientTicket:
    """An encoded ticket, with the key that proves it."""

    ticket: bytes
    proof_key: bytes = attrs.field(repr=False)

    @classmethod
    def derive(cls, ticket: bytes, key: bytes) -> ClientTicket:
        """Return a ticket with its proof key; `key` is that of the network's tickets."""
        derived = blake2b(ticket, key=key, digest_size=PROOF_BYTES, person=b"xmlbroker-proof")
        return cls(ticket, derived.digest())

    def prove_client(self, binding: bytes) -> bytes:
        """Return the client's proof for a link (`broker.transport.arq.link_mac.IMac.binding`)."""
        return _compute_proof(self.proof_key, binding, _OF_CLIENT)

    def prove_parent(self, binding: bytes) -> bytes:
        return _compute_proof(self.proof_key, binding, _OF_PARENT)

    def is_client(self, binding: bytes, proof: bytes) -> bool:
        """Return whether the other end of a link has the ticket from its own session."""
        return bool(binding) and compare_digest(self.prove_client(binding), proof)

    def is_parent(self, binding: bytes, proof: bytes) -> bool:
        """Return whether the other end of a link has the key of the network's tickets."""
        return bool(binding) and compare_digest(self.prove_parent(binding), proof)


def _compute_proof(proof_key: bytes, binding: bytes, person: bytes) -> bytes:
    return blake2b(binding, key=proof_key, digest_size=PROOF_BYTES, person=person).digest()


def sign_ticket(ticket: Ticket, origin: str, key: SigningKey) -> Ticket:
    """Return the ticket with the signature of a node, if its key signs its log."""
    public = key.public.raw
    if not origin_has_key(origin, public):
        return ticket
    return replace(ticket, issuer=Issuer(origin, public, key.sign(_statement(ticket, origin))))


def _statement(ticket: Ticket, origin: str) -> bytes:
    return b"".join((_DOMAIN, origin.encode(), b"\0", _encode(replace(ticket, issuer=None))))


@attrs.frozen
class TicketPolicy:
    """Settings of a node about signatures of tickets."""

    must_sign: bool = False
    revoked: Collection[str] = ()
    """Logs whose keys were stolen."""
    clearance_of: Callable[[str], int] = lambda _: HIGHEST
    """Returns the rank of the highest level for the node with a log; empty: of no known node."""

    def limit_clearance(self, ticket: Ticket) -> int:
        """Return the rank of a ticket, at most that of its issuer: no node gives what it may not
        have itself."""
        issuer = ticket.issuer
        return min(ticket.clearance, self.clearance_of("" if issuer is None else issuer.origin))

    def find_refusal(self, ticket: Ticket) -> str:
        """Return the reason for which the issuer of a ticket is refused; empty: it is accepted."""
        issuer = ticket.issuer
        if issuer is None:
            return "ticket not signed" if self.must_sign else ""
        if issuer.origin in self.revoked:
            return "ticket of a revoked log"
        statement = _statement(ticket, issuer.origin)
        is_signed = has_signed(issuer.key, issuer.signature, statement)
        return "" if is_signed and origin_has_key(issuer.origin, issuer.key) else "ticket forged"


def encode_ticket(ticket: Ticket, key: bytes) -> bytes:
    """Return a ticket with its tag; `key` is that of the network's tickets."""
    contents = _encode(ticket)
    return contents + _compute_tag(contents, key)


def read_ticket(data: bytes, key: bytes) -> Ticket:
    """Raises `AuthenticationFailed` for a ticket whose tag was not made with the key."""
    contents, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    if not compare_digest(_compute_tag(contents, key), tag):
        raise AuthenticationFailed("the ticket has a wrong tag")
    try:
        return _DECODER.decode(contents)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise AuthenticationFailed(f"the ticket is damaged: {error}") from None


def _compute_tag(contents: bytes, key: bytes) -> bytes:
    return blake2b(contents, key=key, digest_size=_TAG_BYTES, person=_PERSON).digest()
