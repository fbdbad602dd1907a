"""Accounts: secret, client ids, rights and clearance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from broker.config.identity import AccountSettings
from broker.config.stored_secret import StoredSecret
from broker.errors import AccountChanged, AuthenticationFailed, NotAllowed
from broker.event.envelope import SecurityLevel
from broker.event.stream import check_client_id
from broker.identity.client_ids import matches_client_id
from broker.identity.identity import Identity
from broker.identity.rights import Rights


@attrs.frozen
class Account:
    """In `client_ids` `*` stands for any or no characters."""

    name: str
    secrets: tuple[StoredSecret, ...]
    client_ids: tuple[str, ...]
    rights: Rights
    clearance: SecurityLevel
    administer: bool
    certificates: tuple[str, ...] = ()
    """Names in certificates that log in to it."""
    tokens: tuple[str, ...] = ()
    """Issuer and subject of tokens that log in to it."""

    @classmethod
    def from_settings(cls, settings: AccountSettings) -> Account:
        return cls(
            name=settings.name,
            secrets=settings.secret,
            client_ids=settings.client_ids,
            rights=Rights(
                publish=settings.publish,
                subscribe=settings.subscribe,
                types=settings.types,
                deny_publish=settings.deny_publish,
                deny_subscribe=settings.deny_subscribe,
            ),
            clearance=settings.clearance,
            administer=settings.administer,
            certificates=settings.certificates,
            tokens=settings.tokens,
        )


class Accounts:
    """The accounts of a node, which can be replaced while it runs."""

    def __init__(self, settings: Iterable[AccountSettings] = ()) -> None:
        self.replace(accounts_by_name(settings))

    def __len__(self) -> int:
        return len(self.by_name)

    def find(self, name: str) -> Account | None:
        return self.by_name.get(name)

    def find_by_certificate(self, name: str) -> Account | None:
        return self._by_certificate.get(name)

    def find_by_token(self, subject: str) -> Account | None:
        return self._by_token.get(subject)

    def replace(self, by_name: Mapping[str, Account]) -> None:
        """Use these accounts for later logins; `accounts_by_name` makes them in any thread."""
        self.by_name = by_name
        each = by_name.values()
        self._by_certificate = {name: one for one in each for name in one.certificates}
        self._by_token = {subject: one for one in each for subject in one.tokens}


def accounts_by_name(settings: Iterable[AccountSettings]) -> Mapping[str, Account]:
    return {each.name: Account.from_settings(each) for each in settings}


def identity_for(account: Account, client_id: str) -> Identity:
    """Return the identity of a client that has proved to be `account`.

    Raises `BadName` for a malformed client id, `NotAllowed` for one that the account may not use.
    """
    check_client_id(client_id)
    if not any(matches_client_id(pattern, client_id) for pattern in account.client_ids):
        raise NotAllowed(f"account {account.name!r} may not use the client id {client_id!r}")
    return Identity(
        account=account.name,
        client_id=client_id,
        rights=account.rights,
        clearance=account.clearance,
        administer=account.administer,
        client_ids=account.client_ids,
    )


def revise_identity(accounts: Accounts, identity: Identity) -> Identity:
    """Return the identity of a session with the present rights of its account.

    A higher clearance counts from the next login. Raises `AuthenticationFailed` for a revoked
    account, `NotAllowed` for a client id that is no longer the account's, and `AccountChanged`
    for a lower clearance.
    """
    if not identity.account:
        return identity
    account = accounts.find(identity.account)
    if account is None:
        raise AuthenticationFailed(f"the account {identity.account!r} has been revoked")
    present = identity_for(account, identity.client_id)
    if present.clearance.rank < identity.clearance.rank:
        raise AccountChanged(
            f"the clearance of the account {identity.account!r} is {present.clearance.value!r} now"
        )
    return attrs.evolve(
        identity,
        rights=present.rights,
        administer=present.administer,
        client_ids=present.client_ids,
    )
