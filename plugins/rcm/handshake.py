"""Bytes of the handshake between two sites of a group."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from broker.errors import ProtocolError, VersionMismatch
from broker.transport.order.wire import MAX_NAMES, Name
from plugins.rcm.site_list import Records

VERSION = 2
_Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=256)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Terms(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Settings that both sites must share."""

    version: _Number
    order: _Text
    delta: float


class Offer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """The terms of a site, its log, and its clock; names by the numbers in its packets; its list
    of sites."""

    terms: Terms
    origin: _Text
    clock: _Number
    names: Annotated[tuple[Name, ...], msgspec.Meta(max_length=MAX_NAMES)]
    sites: Records


class Answer(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
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


def encode_answer(clock: int) -> bytes:
    return _encode(Answer(clock))


def decode_answer(data: bytes) -> int:
    """Return the clock. Raises `ProtocolError`."""
    try:
        return _answers.decode(data).clock
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed answer of a site: {error}") from None


def check_terms(own: Terms, other: Terms) -> None:
    """Raises `VersionMismatch` with both values of the first difference."""
    for name in Terms.__struct_fields__:
        ours, theirs = getattr(own, name), getattr(other, name)
        if ours != theirs:
            raise VersionMismatch(f"{name} is {theirs} there and {ours} here")
