"""Claim of a ClientId: a client's signature by which a node takes over a durable subscription."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta

from broker.errors import NotOwner
from broker.order_certificates.signing_key import SigningKey, has_signed
from broker.wire.codec import Count, pack

DOMAIN: Final = b"xmlbroker claim of a client 1\0"


class Claim(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Public key and signature of a client (Ed25519)."""

    key: Annotated[bytes, Meta(min_length=32, max_length=32)]
    number: Count
    """It rises with each claim of a process, so that a node can refuse an earlier claim."""
    is_derived: bool
    """True if the key is derived from the account's secret, and changes with it."""
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]


class ClaimedState(NamedTuple):
    """The object of a claim: a process of a client, its durable subscription, and the node."""

    client_id: str
    incarnation: int
    token: bytes
    name: str
    node: str
    """Address of the node, as in its Welcome."""

    def _statement(self, number: int, is_derived: bool) -> bytes:
        return DOMAIN + pack((*self, number, is_derived))

    def sign(self, key: SigningKey, number: int, *, is_derived: bool = False) -> Claim:
        signature = key.sign(self._statement(number, is_derived))
        return Claim(key.public.raw, number, is_derived, signature)

    def is_signed(self, claim: Claim) -> bool:
        """Return whether the key of the claim has signed it."""
        statement = self._statement(claim.number, claim.is_derived)
        return has_signed(claim.key, claim.signature, statement)

    def check(self, claim: Claim) -> None:
        """Raise `NotOwner` unless the key of the claim has signed it."""
        if not self.is_signed(claim):
            raise NotOwner(
                f"the proof does not allow {self.node} to have {self.name!r} of {self.client_id}"
            )


class SignedState(NamedTuple):
    """A claim with its object."""

    state: ClaimedState
    claim: Claim

    @property
    def order(self) -> tuple[int, int]:
        """Place among the claims of the client."""
        return self.state.incarnation, self.claim.number

    def proves(self, client_id: str, node: str, key: bytes) -> bool:
        """Return whether the client with this key let the node have a subscription."""
        state, claim = self
        return (state.client_id, state.node, claim.key) == (client_id, node, key) and (
            state.is_signed(claim)
        )
