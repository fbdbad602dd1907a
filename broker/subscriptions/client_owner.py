"""Owner of a ClientId that has durable subscriptions: an account, and the client's key.

Accounts of one name at nodes of two realms may belong to strangers. The key lets the client prove
itself at any node, also if the node that it comes from is dead.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs
import msgpack

from broker.errors import NotOwner, ProtocolError
from broker.wire.claim import Claim, SignedState
from broker.wire.codec import Schema, pack

#: Name of the stored record beside those of the client's durable subscriptions, which have longer
#: ones. Archives carry it.
OWNER_NAME: Final = ""
#: Earlier versions, and the archive's retention, read the record as an expired subscription to
#: this stream.
_STREAM: Final = "xmlbroker-owner"


_SIGNED: Final = Schema[SignedState](SignedState, "claim")

#: Realm and name.
AccountName: TypeAlias = tuple[str, str]


@attrs.frozen
class ClientOwner:
    realm: str = ""
    """Empty if the node had none."""
    account: str = ""
    """Empty at a node without accounts."""
    signed: SignedState | None = None
    """The client's newest claim at this node; None if it has no key."""

    @property
    def key(self) -> bytes:
        """Public key; empty without one."""
        return b"" if self.signed is None else self.signed.claim.key

    @property
    def is_derived(self) -> bool:
        """Return True if the key follows from the account's secret: another session of the account
        at this node may have another one."""
        return self.signed is not None and self.signed.claim.is_derived

    def encode(self) -> bytes:
        signed = b"" if self.signed is None else pack(self.signed)
        fields = {"realm": self.realm, "account": self.account, "signed": signed}
        packed: bytes = msgpack.packb((_STREAM, "", fields, (), 0, None))
        return packed

    @classmethod
    def decode(cls, stored: bytes) -> ClientOwner:
        """Raises `ValueError`."""
        try:
            fields = msgpack.unpackb(stored)[2]
            signed = _SIGNED.decode(fields["signed"]) if fields["signed"] else None
            return cls(fields["realm"], fields["account"], signed)
        except (LookupError, TypeError, ProtocolError) as error:
            raise ValueError(f"the record of an owner is malformed: {error}") from None

    def has_account(self, account: AccountName | None) -> bool:
        """Return False for another account. An owner without a realm fits to all realms."""
        realm, name = account or ("", "")
        return not self.account or (self.account == name and self.realm in ("", realm))

    def check_account(self, client_id: str, account: AccountName | None) -> None:
        """Raise `NotOwner` for another account."""
        if not self.has_account(account):
            raise NotOwner(
                f"the client id {client_id!r} belongs to another account; an administrator can "
                f"release it: xmlbroker client reset {client_id}"
            )

    def check_other_node(
        self,
        client_id: str,
        account: AccountName | None,
        claim: Claim | None,
        *,
        requires_key: bool = False,
    ) -> None:
        """Raise `NotOwner` unless a session at another node is the owner's.

        A node without accounts, or of an earlier version, names none. There the key decides alone.
        With `requires_key` an owner without a key stays here.
        """
        if requires_key and not self.key:
            raise NotOwner(
                f"the client id {client_id!r} has no key at the node of its durable subscription: "
                "it must connect there once with a key"
            )
        if account is not None:
            self.check_account(client_id, account)
        self.check_key(client_id, claim)

    def check_key(self, client_id: str, claim: Claim | None) -> None:
        """Raise `NotOwner` for a claim by another key than the stored one, or none."""
        if self.key and (claim is None or self.key != claim.key):
            raise NotOwner(
                f"the client id {client_id!r} needs the proof of the key that it has used before, "
                "from its state folder or its secret; without it, an administrator can release "
                f"the client id: xmlbroker client reset {client_id}"
            )

    def updated(
        self, client_id: str, account: AccountName | None, signed: SignedState | None
    ) -> ClientOwner:
        """Return the owner for a checked session at this node, with its checked claim.

        Raises `NotOwner` for another key than the stored one, or none, unless that was derived.
        """
        if not self.is_derived:
            self.check_key(client_id, None if signed is None else signed.claim)
        return ClientOwner(*(account or (self.realm, self.account)), signed)


NO_OWNER: Final = ClientOwner()
