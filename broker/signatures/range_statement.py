"""Signature of an origin on the ranges of one of its frames.

    signed: DOMAIN | flow | 0x00 | hashes of the claims of a group of ranges, 16 bytes each

The hashes go with the signature, so that each claim is checked alone, whichever ranges of the
frame a node gets. Groups bound the bytes that a part of a large frame has for its other ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple, TypeAlias

from msgspec import Meta

from broker.errors import BadSignature
from broker.event.flow import origin_of
from broker.event.origin import origin_has_key
from broker.order_certificates.signing_key import SigningKey, has_signed

DOMAIN: Final = b"xmlbroker ranges of an origin 1\0"
#: The first half of a SHA-256.
CLAIM_BYTES: Final = 16
#: Of one signature.
MOST_CLAIMS: Final = 32
MOST_GROUPS: Final = 128

ClaimHash: TypeAlias = bytes


class ClaimGroup(NamedTuple):
    """Claims with one signature."""

    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]
    hashes: Annotated[bytes, Meta(min_length=CLAIM_BYTES, max_length=CLAIM_BYTES * MOST_CLAIMS)]


class RangeStatement(NamedTuple):
    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    """Public key of the origin."""
    groups: Annotated[tuple[ClaimGroup, ...], Meta(min_length=1, max_length=MOST_GROUPS)]


class RangeSigner:
    """Signs claims of flows of one origin."""

    def __init__(self, key: SigningKey) -> None:
        """The name of the origin belongs to `key`."""
        self._key = key

    def sign(self, flow: str, claims: Sequence[ClaimHash]) -> RangeStatement:
        """Return groups of `MOST_CLAIMS` claims, in their order."""
        joined = [
            b"".join(claims[at : at + MOST_CLAIMS]) for at in range(0, len(claims), MOST_CLAIMS)
        ]
        groups = [ClaimGroup(self._key.sign(_signed(flow, each)), each) for each in joined]
        return RangeStatement(self._key.public.raw, tuple(groups))


class StatementChecker:
    """Checks claims of one frame. Each signature is checked once."""

    def __init__(self, flow: str, statement: RangeStatement) -> None:
        self._flow = flow
        self._statement = statement
        self._checked: dict[int, set[ClaimHash]] = {}

    def check(self, group: int, claim: ClaimHash) -> None:
        """Raises `BadSignature`."""
        if group not in self._checked:
            self._checked[group] = self._check_group(group)
        if claim not in self._checked[group]:
            raise BadSignature(f"a range of {self._flow} is not the one that was signed")

    def _check_group(self, group: int) -> set[ClaimHash]:
        key, groups = self._statement
        if group >= len(groups):
            raise BadSignature(f"a range of {self._flow} is not signed")
        signature, hashes = groups[group]
        if not has_signed(key, signature, _signed(self._flow, hashes)):
            raise BadSignature(f"ranges of {self._flow} are not those that were signed")
        # The hash of a key takes milliseconds.
        if not origin_has_key(origin_of(self._flow), key):
            raise BadSignature(f"the log of {self._flow} does not belong to the key of its ranges")
        return {hashes[at : at + CLAIM_BYTES] for at in range(0, len(hashes), CLAIM_BYTES)}


def _signed(flow: str, hashes: bytes) -> bytes:
    return b"".join((DOMAIN, flow.encode(), b"\0", hashes))
