"""The client's side of SCRAM."""

from __future__ import annotations

import hmac
import secrets

from broker.canonical_base64 import encode_base64
from broker.errors import AuthenticationFailed, ProtocolError
from broker.scram.attributes import (
    check_nonce,
    decode_base64_attribute,
    decode_text,
    encode_binding,
    parse_attributes,
)
from broker.scram.key_derivation import KeyDerivation
from broker.scram.keys import ClientKeys, sign


class ClientExchange:
    """One login. A node may send several challenges, one for each secret of the account."""

    def __init__(self, account: str, binding: str = "", nonce: str | None = None) -> None:
        """`binding` is the name of the channel binding, empty without TLS."""
        self._header = f"p={binding},," if binding else "n,,"
        self._nonce = nonce or secrets.token_urlsafe(18)
        name = account.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}"
        self._challenge = ""
        self._combined_nonce = ""
        self._signature: bytes | None = None

    @property
    def first(self) -> bytes:
        """The client-first message."""
        return (self._header + self._bare).encode()

    def read_challenge(self, data: bytes) -> KeyDerivation:
        """Take a server-first message.

        Raises `ProtocolError`, and `AuthenticationFailed` for weak parameters: an impostor could
        guess the secret from the proof.
        """
        self._challenge = decode_text(data)
        fields = parse_attributes(self._challenge, "rsi")
        self._combined_nonce = check_nonce(fields["r"])
        if not self._combined_nonce.startswith(self._nonce) or len(self._combined_nonce) < (
            len(self._nonce) + 16
        ):
            raise ProtocolError("the node's nonce does not extend the client's")
        try:
            return KeyDerivation.from_attributes(fields["s"], fields["i"], fields.get("k"))
        except ValueError as error:
            raise AuthenticationFailed(
                f"the node asks for a weak hash of the secret: {error}"
            ) from None

    def respond(self, keys: ClientKeys, binding_data: bytes = b"") -> bytes:
        """Return the client-final message."""
        bare = f"c={encode_binding(self._header, binding_data)},r={self._combined_nonce}"
        message = f"{self._bare},{self._challenge},{bare}".encode()
        self._signature = sign(keys.stored.server_key, message)
        return f"{bare},p={encode_base64(keys.prove(message))}".encode()

    def check_final(self, data: bytes) -> None:
        """Take the server-final message.

        Raises `AuthenticationFailed` if the node has not proved that it stores this secret.
        """
        fields = parse_attributes(decode_text(data), "v") if data else {}
        signature = decode_base64_attribute(fields.get("v", ""))
        if self._signature is None or not hmac.compare_digest(signature, self._signature):
            raise AuthenticationFailed(
                "the node did not prove that it has this account with this secret: "
                "it is another node, has no accounts, or is an impostor"
            )
