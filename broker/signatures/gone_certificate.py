"""Certificate that the log of an origin does not come back (`docs/protocols/gone-origins.md`).

The origin itself signs it with the key of its name, or a majority of its last membership does: the
nodes of its cluster with their keys, as the origin has signed them while it lived.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from broker.errors import BadSignature
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import SigningKey
from broker.signatures.statement import (
    GONE_DOMAIN,
    MEMBERSHIP_DOMAIN,
    check_statement,
    sign_statement,
)

#: Of a signed membership. A cluster with more nodes signs the first ones.
MOST_MEMBERS: Final = 64
#: Of a majority.
FEWEST_VOTES: Final = 2
MOST_BYTES: Final = 32 << 10
_Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
_Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
_Time = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class Membership(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Nodes of an origin's cluster, signed by the origin."""

    time: _Time
    """Ms since 1970, by the origin's clock; rises with each membership of the origin."""
    key: _Key
    members: Annotated[tuple[tuple[_Name, _Key], ...], Meta(min_length=1, max_length=MOST_MEMBERS)]
    """Names and keys, by name; the origin's node is one of them."""
    signature: _Signature

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @property
    def votes_needed(self) -> int:
        return max(FEWEST_VOTES, len(self.members) // 2 + 1)

    def check(self, origin: str) -> None:
        """Raises `BadSignature`."""
        if len(dict(self.members)) != len(self.members):
            raise BadSignature("a membership names a node twice")
        check_statement(
            *(self.key, self.signature, MEMBERSHIP_DOMAIN),
            *_membership_parts(origin, self.time, self.members),
        )
        if not origin_has_key(origin, self.key):
            raise BadSignature(f"the membership of {origin} is signed by another key")


class Vote(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """A node states that the log of an origin does not come back."""

    time: _Time
    """Ms since 1970. It is void if the origin signs a later membership."""
    key: _Key
    signature: _Signature

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def check(self, origin: str) -> None:
        """Raises `BadSignature`."""
        check_statement(*(self.key, self.signature, GONE_DOMAIN), *_vote_parts(origin, self.time))


class GoneCertificate(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    membership: Membership | None
    """None if the origin's own key has signed the one vote."""
    votes: Annotated[tuple[Vote, ...], Meta(min_length=1, max_length=MOST_MEMBERS)]

    def encode(self) -> bytes:
        return msgspec.msgpack.encode(self)

    def check(self, origin: str, newest: Membership | None = None) -> None:
        """Raise `BadSignature` unless enough nodes have signed.

        `newest` is a checked membership of the origin. It counts in place of an earlier one.
        """
        if self.membership is None:
            self._check_own(origin, newest)
            return
        membership = newest
        if newest is None or newest.time < self.membership.time:
            membership = self.membership
            membership.check(origin)
        assert membership is not None
        names = {key: name for name, key in membership.members}
        signers = {names[each.key] for each in self.votes if each.key in names}
        valid = [each for each in self.votes if each.key in names and each.time > membership.time]
        if len({names[each.key] for each in valid}) < membership.votes_needed:
            raise BadSignature(
                f"{len(signers)} of {len(membership.members)} nodes have signed that {origin} is "
                f"gone, but {membership.votes_needed} must"
            )
        for each in valid:
            each.check(origin)

    def _check_own(self, origin: str, newest: Membership | None) -> None:
        vote = self.votes[0]
        if newest is not None and vote.time <= newest.time:
            raise BadSignature(f"{origin} has come back since its certificate")
        vote.check(origin)
        if not origin_has_key(origin, vote.key):
            raise BadSignature(f"another key than that of {origin} has signed that it is gone")


T = TypeVar("T")


def decode_certificate(data: Any) -> GoneCertificate:
    """Raises `BadSignature`."""
    return _decode(GoneCertificate, data)


def decode_membership(data: Any) -> Membership:
    """Raises `BadSignature`."""
    return _decode(Membership, data)


def decode_vote(data: Any) -> Vote:
    """Raises `BadSignature`."""
    return _decode(Vote, data)


def _decode(kind: type[T], data: Any) -> T:
    try:
        if not isinstance(data, bytes) or len(data) > MOST_BYTES:
            raise ValueError("not bytes, or too many")
        return msgspec.msgpack.decode(data, type=kind)
    except (ValueError, RecursionError) as error:
        raise BadSignature(f"malformed {kind.__name__}: {error}") from None


def sign_membership(
    key: SigningKey, origin: str, time: int, members: Iterable[tuple[str, bytes]]
) -> Membership:
    listed = tuple(members)
    signature = sign_statement(key, MEMBERSHIP_DOMAIN, *_membership_parts(origin, time, listed))
    return Membership(time, key.public.raw, listed, signature)


def sign_vote(key: SigningKey, origin: str, time: int) -> Vote:
    signature = sign_statement(key, GONE_DOMAIN, *_vote_parts(origin, time))
    return Vote(time, key.public.raw, signature)


def _membership_parts(
    origin: str, time: int, members: tuple[tuple[str, bytes], ...]
) -> list[bytes]:
    named = [part for name, key in members for part in (name.encode(), key)]
    return [origin.encode(), time.to_bytes(8, "big"), *named]


def _vote_parts(origin: str, time: int) -> list[bytes]:
    return [origin.encode(), time.to_bytes(8, "big")]
