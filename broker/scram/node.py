"""The node's side of SCRAM: a few HMACs for each login."""

from __future__ import annotations

import secrets

import attrs

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
from broker.scram.keys import StoredKeys, sign


@attrs.frozen
class ClientFirst:
    """The client-first message."""

    header: str
    bare: str
    binding: str
    """Name of the channel binding, empty without one."""
    account: str
    nonce: str

    @classmethod
    def parse(cls, data: bytes) -> ClientFirst:
        """Raises `ProtocolError`."""
        text = decode_text(data)
        flag, comma, rest = text.partition(",")
        authzid, second, bare = rest.partition(",")
        if not comma or not second or authzid or not (flag == "n" or flag.startswith("p=")):
            raise ProtocolError("the first message of a login begins with n,, or p=BINDING,,")
        fields = parse_attributes(bare, "nr")
        account = fields["n"].replace("=2C", ",").replace("=3D", "=")
        return cls(f"{flag},,", bare, flag[2:], account, check_nonce(fields["r"]))


class NodeExchange:
    """One challenge to a client, and the check of its response."""

    def __init__(self, first: ClientFirst, binding_data: bytes, nonce: str | None = None) -> None:
        self._first = first
        self._nonce = first.nonce + (nonce or secrets.token_urlsafe(18))
        self._binding = encode_binding(first.header, binding_data)
        self._challenge = ""

    def challenge(self, derivation: KeyDerivation) -> bytes:
        """Return the server-first message."""
        self._challenge = f"r={self._nonce},{derivation.to_attributes()}"
        return self._challenge.encode()

    def check_response(self, data: bytes, keys: StoredKeys) -> bytes | None:
        """Take the client-final message; return the server-final one, or None for a wrong secret.

        Raises `ProtocolError`, and `AuthenticationFailed` for a proof of another channel.
        """
        bare, _, proof = decode_text(data).rpartition(",p=")
        fields = parse_attributes(bare, "cr")
        if fields["r"] != self._nonce:
            raise ProtocolError("the client's response has another nonce")
        if fields["c"] != self._binding:
            raise AuthenticationFailed(
                "the login is bound to another connection: something between client and node "
                "ends their encryption"
            )
        message = f"{self._first.bare},{self._challenge},{bare}".encode()
        if not keys.is_proof(decode_base64_attribute(proof), message):
            return None
        return f"v={encode_base64(sign(keys.server_key, message))}".encode()
