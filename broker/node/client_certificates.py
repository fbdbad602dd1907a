"""Client certificates at the endpoints for clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from OpenSSL import SSL
from OpenSSL.crypto import X509
from twisted.internet.interfaces import IListeningPort

from broker.cluster.node_certificate import read_certificates


class VerifyingReactor:
    """A reactor whose TLS listeners ask for a client's certificate, and verify it.

    An endpoint string can not name an authority of clients. A client without a certificate may
    connect, and log in otherwise.
    """

    def __init__(self, reactor: Any, authority: Path) -> None:
        """Raises `ConfigurationError`."""
        self._reactor = reactor
        self._authorities = [
            each.original for each in read_certificates("identity.client_authority", authority)
        ]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reactor, name)

    def listenSSL(
        self,
        port: int,
        factory: Any,
        contextFactory: Any,
        backlog: int = 50,
        interface: str = "",
    ) -> IListeningPort:
        context: SSL.Context = contextFactory.getContext()
        store = context.get_cert_store()
        assert store is not None
        for certificate in self._authorities:
            store.add_cert(certificate)
            context.add_client_ca(certificate)
        context.set_verify(SSL.VERIFY_PEER, _keep_verdict)
        return self._reactor.listenSSL(  # type: ignore[no-any-return]
            port, factory, contextFactory, backlog, interface
        )


def _keep_verdict(
    connection: SSL.Connection, certificate: X509, error: int, depth: int, is_valid: int
) -> bool:
    return bool(is_valid)
