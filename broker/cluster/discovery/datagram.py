"""Datagrams of discovery in a multicast group.

Big-endian: magic `XBD1`, kind (1 question, 2 answer), nonce (8 bytes), proof (16 bytes), then a
msgpack array. A question is padded with zeros to the length of the longest answer, so that answers
never amplify traffic (T41).
"""

from __future__ import annotations

import hmac
from typing import Any, TypeAlias

import attrs
import msgpack

from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint, checked_address, checked_endpoint
from broker.errors import AuthenticationFailed, BadName, ProtocolError
from broker.wire.fields import flag, text

MAGIC = b"XBD1"
NONCE_BYTES = 8
PROOF_BYTES = 16
#: Bytes of the longest answer, with the longest host name and deepest address, and of any question.
DATAGRAM_BYTES = 1200
_QUESTION, _ANSWER = 1, 2
_PROOF_AT = len(MAGIC) + 1 + NONCE_BYTES
_BODY_AT = _PROOF_AT + PROOF_BYTES
_NO_PROOF = bytes(PROOF_BYTES)


@attrs.frozen
class Question:
    """Ask for the nodes of a network."""

    nonce: bytes
    network: str


@attrs.frozen
class Answer:
    """One node's answer."""

    nonce: bytes
    network: str
    address: Address
    endpoint: Endpoint
    """TCP endpoint for links."""
    has_room: bool
    """The node's cluster is not full."""


Datagram: TypeAlias = Question | Answer


def encode(datagram: Datagram, key: bytes | None) -> bytes:
    """Encode a datagram, with a proof of the network's key if there is one."""
    if isinstance(datagram, Question):
        kind, fields = _QUESTION, (datagram.network,)
    else:
        kind, fields = _ANSWER, attrs.astuple(datagram, recurse=False)[1:]
    body = msgpack.packb(fields)
    if kind == _QUESTION:
        body = body.ljust(DATAGRAM_BYTES - _BODY_AT, b"\0")
    head = MAGIC + bytes([kind]) + datagram.nonce
    return bytes(head + _proof(key, head, body) + body)


def decode(data: bytes, key: bytes | None) -> Datagram:
    """Decode a datagram.

    Raises `ProtocolError` for a malformed one, `AuthenticationFailed` for one without a proof of
    the key.
    """
    if not data.startswith(MAGIC) or not _BODY_AT < len(data) <= DATAGRAM_BYTES:
        raise ProtocolError("not a datagram of discovery")
    head, proof, body = data[:_PROOF_AT], data[_PROOF_AT:_BODY_AT], data[_BODY_AT:]
    if not hmac.compare_digest(proof, _proof(key, head, body)):
        raise AuthenticationFailed("a datagram of discovery without the network's key")
    kind, nonce = head[len(MAGIC)], head[len(MAGIC) + 1 :]
    try:
        if kind == _QUESTION and len(data) == DATAGRAM_BYTES:
            (network,) = msgpack.unpackb(body.rstrip(b"\0"), use_list=False)
            return Question(nonce, text(network))
        if kind == _ANSWER:
            return _answer(nonce, *msgpack.unpackb(body, use_list=False))
    except (ValueError, TypeError, BadName, msgpack.UnpackException):
        raise ProtocolError("a malformed datagram of discovery") from None
    raise ProtocolError("not a datagram of discovery")


def _answer(nonce: bytes, network: Any, address: Any, endpoint: Any, has_room: Any) -> Answer:
    return Answer(
        *(nonce, text(network), checked_address(address)),
        *(checked_endpoint(endpoint), flag(has_room)),
    )


def _proof(key: bytes | None, head: bytes, body: bytes) -> bytes:
    if key is None:
        return _NO_PROOF
    return hmac.digest(key, head + body, "sha256")[:PROOF_BYTES]
