"""Who a client is: accounts through `twisted.cred`, rights by stream pattern, clearances."""

from __future__ import annotations

from broker.identity.accounts import Account, accounts_by_name, identity_for
from broker.identity.clearance import is_cleared
from broker.identity.interfaces import IAuthenticator, IIdentity
from broker.identity.login import (
    AccountsRealm,
    OpenDoor,
    PortalAuthenticator,
    SecretChecker,
    accounts_portal,
    authenticator_for,
)
from broker.identity.rights import Rights
from broker.identity.secret import hash_secret
from broker.identity.who import Identity, anonymous

__all__ = [
    "Account",
    "AccountsRealm",
    "IAuthenticator",
    "IIdentity",
    "Identity",
    "OpenDoor",
    "PortalAuthenticator",
    "Rights",
    "SecretChecker",
    "accounts_by_name",
    "accounts_portal",
    "anonymous",
    "authenticator_for",
    "hash_secret",
    "identity_for",
    "is_cleared",
]
