"""Datagrams of discovery (`docs/protocols/organisation.md`).

A question is as long as the longest answer, so that answers never amplify traffic (T41).
"""

from __future__ import annotations

import hmac
from typing import Final, TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.descriptor import Endpoint
from broker.errors import AuthenticationFailed, ProtocolError
from broker.wire.codec import Schema, pack

MAGIC = b"XBD1"
NONCE_BYTES = 8
PROOF_BYTES = 16
#: The longest answer, and any question.
DATAGRAM_BYTES = 1200
_QUESTION, _ANSWER = 1, 2
_PROOF_AT = len(MAGIC) + 1 + NONCE_BYTES
_BODY_AT = _PROOF_AT + PROOF_BYTES
_NO_PROOF = bytes(PROOF_BYTES)
_QUESTION_BODY: Final = Schema[tuple[str]](tuple[str], "question of discovery")
_AnswerBody: TypeAlias = tuple[str, Address, Endpoint, bool]
_ANSWER_BODY: Final = Schema[_AnswerBody](_AnswerBody, "answer of discovery")


@attrs.frozen
class Question:
    nonce: bytes
    network: str


@attrs.frozen
class Answer:
    nonce: bytes
    network: str
    address: Address
    endpoint: Endpoint
    has_room: bool


Datagram: TypeAlias = Question | Answer


def encode(datagram: Datagram, key: bytes | None) -> bytes:
    """Encode a datagram, with a proof of the network's key if there is one."""
    if isinstance(datagram, Question):
        kind, body = _QUESTION, pack((datagram.network,)).ljust(DATAGRAM_BYTES - _BODY_AT, b"\0")
    else:
        kind, body = _ANSWER, pack(attrs.astuple(datagram, recurse=False)[1:])
    head = MAGIC + bytes([kind]) + datagram.nonce
    return bytes(head + _proof(key, head, body) + body)


def decode(data: bytes, key: bytes | None) -> Datagram:
    """Raises `ProtocolError` for a malformed one, `AuthenticationFailed` without a proof of the
    key."""
    if not data.startswith(MAGIC) or not _BODY_AT < len(data) <= DATAGRAM_BYTES:
        raise ProtocolError("not a datagram of discovery")
    head, proof, body = data[:_PROOF_AT], data[_PROOF_AT:_BODY_AT], data[_BODY_AT:]
    if not hmac.compare_digest(proof, _proof(key, head, body)):
        raise AuthenticationFailed("a datagram of discovery without the network's key")
    kind, nonce = head[len(MAGIC)], head[len(MAGIC) + 1 :]
    if kind == _QUESTION and len(data) == DATAGRAM_BYTES:
        return Question(nonce, *_QUESTION_BODY.decode(body.rstrip(b"\0")))
    if kind == _ANSWER:
        return Answer(nonce, *_ANSWER_BODY.decode(body))
    raise ProtocolError("not a datagram of discovery")


def _proof(key: bytes | None, head: bytes, body: bytes) -> bytes:
    if key is None:
        return _NO_PROOF
    return hmac.digest(key, head + body, "sha256")[:PROOF_BYTES]
