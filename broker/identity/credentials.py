"""Credentials of `twisted.cred`: proof of a secret, client certificate, bearer token."""

from __future__ import annotations

import attrs
from twisted.cred.credentials import ICredentials
from zope.interface import Attribute, implementer

from broker.config.stored_secret import StoredSecret
from broker.scram import NodeExchange


class ISecretProof(ICredentials):
    """Proof that a client has a secret."""

    name: str = Attribute("The account's name.")

    def check_proof(stored: StoredSecret) -> bool:
        """Return True if the client has this secret."""


class IClientCertificate(ICredentials):
    """Certificate that a client has proved in the TLS handshake."""

    certificate: bytes = Attribute("The certificate in DER.")


class IBearerToken(ICredentials):
    """Token of an issuer."""

    token: bytes = Attribute("The token, signed by its issuer.")


@implementer(ISecretProof)
@attrs.define
class SecretProof:
    name: str
    challenged: StoredSecret
    exchange: NodeExchange
    response: bytes = attrs.field(repr=False)
    final: bytes = b""
    """The node's proof, after a successful check."""

    def check_proof(self, stored: StoredSecret) -> bool:
        if stored != self.challenged:
            return False
        final = self.exchange.check_response(self.response, stored.keys)
        self.final = final or b""
        return final is not None


@implementer(IClientCertificate)
@attrs.define
class ClientCertificate:
    certificate: bytes = attrs.field(repr=False)
    expires_at: float | None = None
    """Set by the checker; seconds since 1970."""


@implementer(IBearerToken)
@attrs.define
class BearerToken:
    token: bytes = attrs.field(repr=False)
    expires_at: float | None = None
    """Set by the checker; seconds since 1970."""
