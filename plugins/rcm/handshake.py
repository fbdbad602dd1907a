"""Bytes of the handshake between two sites of a group."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from broker.errors import ProtocolError, VersionMismatch
from broker.transport.order.wire import MAX_NAMES, Name
from plugins.rcm.site_list import Records

VERSION = 3
_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Terms(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Settings that both sites must share."""

    version: _Number
    order: _Text
    delta: float


class Loss(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The last message of a site that its link to the receiver may have lost: 0 for none."""

    link: _Number
    """Number of the sender's end of the link. A new end has none of the receiver's messages."""
    incarnation: _Number = 0
    number: _Number = 0
    mark: tuple[_Number, _Number] = (0, 0)
    """Place of its event in the sender's log."""


class Offer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The terms of a site, its log, its losses, and its clock; names by the numbers in its packets;
    its list of sites.

    Without a clock its sender has not recovered the receiver's losses, and needs no answer.
    """

    terms: Terms
    origin: _Text
    loss: Loss
    clock: _Number | None
    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_NAMES)]
    sites: Records


class Answer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    origin: _Text
    loss: Loss
    clock: _Number


_encode = msgspec.msgpack.Encoder().encode
_offers = msgspec.msgpack.Decoder(Offer)
_answers = msgspec.msgpack.Decoder(Answer)


def encode_offer(offer: Offer) -> bytes:
    return _encode(offer)


def decode_offer(data: bytes) -> Offer:
    """Raises `ProtocolError`."""
    try:
        return _offers.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed offer of a site: {error}") from None


def encode_answer(answer: Answer) -> bytes:
    return _encode(answer)


def decode_answer(data: bytes) -> Answer:
    """Raises `ProtocolError`."""
    try:
        return _answers.decode(data)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed answer of a site: {error}") from None


def check_terms(own: Terms, other: Terms) -> None:
    """Raises `VersionMismatch` with both values of the first difference."""
    for name in Terms.__struct_fields__:
        ours, theirs = getattr(own, name), getattr(other, name)
        if ours != theirs:
            raise VersionMismatch(f"{name} is {theirs} there and {ours} here")
