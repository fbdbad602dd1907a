"""Interfaces of identity and authentication."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred
from zope.interface import Interface

from broker.identity.avatar import IIdentity
from broker.identity.identity import Identity
from broker.transport.socket import ISocketChannel
from broker.transport.socket.contract import ITlsChannel

__all__ = ["Ask", "IAuthenticator", "IIdentity", "Login", "LoginOffer"]

#: Sends a challenge to the client, and returns its response.
Ask: TypeAlias = "Callable[[bytes], Deferred[bytes]]"


@attrs.frozen
class LoginOffer:
    """The login data of a client's first message, and its channel."""

    client_id: str
    channel: ISocketChannel
    account: str = ""
    """Empty if the credential names the account."""
    mechanism: str = ""
    """Empty without credentials, and for clients that send their secret."""
    data: bytes = attrs.field(default=b"", repr=False)
    sent_secret: str | None = attrs.field(default=None, repr=False)
    """Of clients of session protocol 6 or less."""

    def binding_data(self, kind: str) -> bytes | None:
        """Return the data of a channel binding; None if it is not available."""
        channel = self.channel
        return channel.binding_data(kind) if ITlsChannel.providedBy(channel) else None

    def peer_certificate(self) -> bytes | None:
        """Return the client's verified certificate in DER, or None."""
        channel = self.channel
        return channel.peer_certificate() if ITlsChannel.providedBy(channel) else None


@attrs.frozen
class Login:
    """A successful login."""

    identity: Identity
    proof: bytes = b""
    """The node's proof for the client, if the mechanism has one."""
    expires_at: float | None = None
    """Seconds since 1970; None for a credential without an end."""


class IAuthenticator(Interface):
    """Authenticates clients by the content of their handshake."""

    def authenticate(offer: LoginOffer, ask: Ask) -> Deferred[Login]:
        """Return the identity of a client.

        Fails with `BadName` for a malformed client id, `AuthenticationFailed` for a missing or
        wrong credential, `NotAllowed` for a client id of another account, `VersionMismatch` for a
        client that sends its secret, `ProtocolError` for a malformed message of the login, and
        `Overloaded` when too many clients wait for the check. Cancelling it ends the login.
        """

    def load_keys() -> Callable[[], bool]:
        """Read the files of the authenticator again, in any thread. Raises `ConfigurationError`.

        Return a function that uses them for later logins, and returns whether there are any.
        """
