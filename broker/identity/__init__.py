"""Identity of clients: accounts by `twisted.cred`, rights by stream pattern, clearances."""

from __future__ import annotations

from broker.identity.accounts import (
    Account,
    Accounts,
    accounts_by_name,
    identity_for,
    revise_identity,
)
from broker.identity.clearance import is_cleared
from broker.identity.identity import Identity, anonymous_identity
from broker.identity.interfaces import Ask, IAuthenticator, IIdentity, Login, LoginOffer
from broker.identity.login import (
    AccountsRealm,
    AnonymousAuthenticator,
    PortalAuthenticator,
    accounts_portal,
    authenticator_for,
)
from broker.identity.rights import Rights
from broker.identity.secret import hash_secret

__all__ = [
    "Account",
    "Accounts",
    "AccountsRealm",
    "Ask",
    "IAuthenticator",
    "IIdentity",
    "Identity",
    "Login",
    "LoginOffer",
    "AnonymousAuthenticator",
    "PortalAuthenticator",
    "Rights",
    "accounts_by_name",
    "accounts_portal",
    "anonymous_identity",
    "authenticator_for",
    "hash_secret",
    "identity_for",
    "is_cleared",
    "revise_identity",
]
