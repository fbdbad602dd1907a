"""The interfaces of identity: who a session is, and who finds that out."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import Interface

from broker.identity.avatar import IIdentity
from broker.identity.who import Identity

__all__ = ["IAuthenticator", "IIdentity"]


class IAuthenticator(Interface):
    """Decides who a client is, from what it presents in its handshake."""

    def authenticate(
        client_id: str, account: str | None, secret: bytes | None
    ) -> Deferred[Identity]:
        """The identity of a client.

        `account` and `secret` are None when the client presented none. Fails with `BadName` for an
        impossible client id, `AuthenticationFailed` for a missing or wrong credential,
        `NotAllowed` when the credential is right but the client id belongs to another, and
        `Overloaded` when too many clients wait to be checked.
        """
