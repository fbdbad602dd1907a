"""The client's side of a login, and its credentials.

A secret never leaves the process: the node gets a proof of it, and has to prove itself too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs

from broker.client.loop import Loop
from broker.errors import (
    AuthenticationFailed,
    CleartextForbidden,
    ConfigurationError,
    ProtocolError,
)
from broker.scram.client import ClientExchange
from broker.scram.key_derivation import KeyDerivation
from broker.scram.keys import ClientKeys
from broker.scram.mechanism import CERTIFICATE, SCRAM, TOKEN, format_credential
from broker.transport.socket import ISocketChannel
from broker.transport.socket.contract import ITlsChannel
from broker.wire import messages
from broker.wire.messages import Challenge, Response, Welcome

#: Derived keys that a client keeps: the node's secrets of one account, at two nodes.
MOST_KEYS: Final = 8
#: Challenges of one login: an account has at most so many secrets.
MOST_CHALLENGES: Final = 4
MAX_TOKEN_BYTES: Final = 6 * 1024


class SecretKeys:
    """Keys derived from the secret, for logins after the first one."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._keys: OrderedDict[KeyDerivation, ClientKeys] = OrderedDict()

    def derive(
        self, derivation: KeyDerivation, loop: Loop, done: Callable[[ClientKeys], None]
    ) -> None:
        """Call `done` with the keys, at once if they are known, else after work in a thread."""
        found = self._keys.get(derivation)
        if found is not None:
            done(found)
            return

        def store(keys: ClientKeys) -> None:
            self._keys[derivation] = keys
            if len(self._keys) > MOST_KEYS:
                self._keys.popitem(last=False)
            done(keys)

        loop.compute(lambda: ClientKeys.from_salted(derivation.derive(self._secret)), store)


@attrs.frozen
class Credentials:
    """At most one of secret, token and certificate is used, in this order."""

    account: str = ""
    secret: str = attrs.field(default="", repr=False)
    token_file: Path | None = None
    """Read for each login, since tokens are renewed."""
    certificate: bool = False
    """True if the TLS connection presents a certificate."""
    keys: SecretKeys = attrs.field(
        default=attrs.Factory(lambda self: SecretKeys(self.secret), takes_self=True),
        repr=False,
        eq=False,
    )

    @property
    def is_empty(self) -> bool:
        return not (self.secret or self.token_file or self.certificate)

    def begin_login(self, channel: ISocketChannel, loop: Loop) -> ClientLogin:
        return ClientLogin(self, channel, loop)


class ClientLogin:
    """The login of one connection."""

    def __init__(self, credentials: Credentials, channel: ISocketChannel, loop: Loop) -> None:
        self._credentials = credentials
        self._channel = channel
        self._loop = loop
        self._challenges = 0
        self._tls = channel if ITlsChannel.providedBy(channel) else None
        self._binding = self._tls.binding_kind if self._tls is not None else ""
        self._exchange = (
            ClientExchange(credentials.account, self._binding) if credentials.secret else None
        )

    @property
    def has_credential(self) -> bool:
        return not self._credentials.is_empty

    def make_credential(self) -> str:
        """Return the credential of Hello.

        Raises `AuthenticationFailed` or `CleartextForbidden` if the connection is not fit for it,
        `ConfigurationError` for an unusable file.
        """
        of = self._credentials
        if self._exchange is not None:
            if not of.account:
                raise AuthenticationFailed("a secret needs the name of its account")
            return format_credential(SCRAM, self._exchange.first)
        if of.token_file is not None:
            if not self._channel.confidential:
                raise CleartextForbidden("a token is sent over TLS or to this machine only")
            return format_credential(TOKEN, _read_token(of.token_file))
        if of.certificate:
            if not self._channel.secure:
                raise AuthenticationFailed("a login by certificate needs an endpoint tls:")
            return format_credential(CERTIFICATE)
        return ""

    def answer(self, challenge: Challenge, failed: Callable[[AuthenticationFailed], None]) -> None:
        """Send the response, soon. Raises `ProtocolError` or `AuthenticationFailed`."""
        exchange = self._exchange
        self._challenges += 1
        if exchange is None or self._challenges > MOST_CHALLENGES:
            raise ProtocolError("the node sent a challenge that does not fit this login")
        derivation = exchange.read_challenge(challenge.data)

        def respond(keys: ClientKeys) -> None:
            binding: bytes | None = b""
            if self._tls is not None and self._binding:
                binding = self._tls.binding_data(self._binding)
            if binding is None:
                failed(AuthenticationFailed(f"the connection has no {self._binding}: use TLS 1.3"))
                return
            response = Response(exchange.respond(keys, binding))
            self._channel.send([messages.encode(response)])

        self._credentials.keys.derive(derivation, self._loop, respond)

    def check(self, welcome: Welcome) -> None:
        """Raise `AuthenticationFailed` if the node has not proved itself."""
        if self._exchange is not None:
            self._exchange.check_final(welcome.proof)


def _read_token(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            token = file.read(MAX_TOKEN_BYTES + 1).strip()
    except OSError as error:
        raise ConfigurationError(
            f"the token can not be read from {path}: {error.strerror}"
        ) from None
    if not 0 < len(token) <= MAX_TOKEN_BYTES or not token.isascii() or b" " in token:
        raise ConfigurationError(
            f"{path} does not hold one token of at most {MAX_TOKEN_BYTES} bytes"
        )
    return token
