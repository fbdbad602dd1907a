"""Interfaces of identity and authentication."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import Interface

from broker.identity.avatar import IIdentity
from broker.identity.identity import Identity

__all__ = ["IAuthenticator", "IIdentity"]


class IAuthenticator(Interface):
    """Authenticates clients by the content of their handshake."""

    def authenticate(
        client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
        """Return the identity of a client.

        `account` and `secret` are None without credentials. Fails with `BadName` for a malformed
        client id, `AuthenticationFailed` for a missing or wrong credential, `NotAllowed` for a
        client id of another account, and `Overloaded` when too many clients wait for the check.
        """
