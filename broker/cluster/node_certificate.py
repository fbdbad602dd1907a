"""Node certificates: identity of both ends of a TCP link (X12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import crypto
from twisted.internet.error import VerifyError
from twisted.internet.interfaces import IProtocolFactory, IReactorTime
from twisted.internet.ssl import (
    Certificate,
    CertificateOptions,
    PrivateCertificate,
    TLSVersion,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOFactory

from broker.config import Settings
from broker.errors import ConfigurationError
from broker.sessions.tls_handshakes import PacedTlsFactory
from broker.transport.socket.reloadable_context import ReloadableContext
from broker.transport.socket.tcp import common_name

_T = TypeVar("_T")


class NodeCertificate:
    """A node's certificate, and the authority of all certificates of the network (X12).

    Its common name is the node's name. Both ends present one and accept only the authority's.
    """

    def __init__(self, certificate: Path, authority: Path, node: str) -> None:
        """Load two PEM files; `certificate` includes the private key. Raises
        `ConfigurationError`."""
        own = _read("network.certificate", certificate, PrivateCertificate.loadPEM)
        roots = read_certificates("network.authority", authority)
        name = common_name(own.original)
        if name != node:
            raise ConfigurationError(
                f"network.certificate {certificate} is for {name!r}, but node.name is {node!r}"
            )
        self._files = (certificate, authority, node)
        options: Any = CertificateOptions(
            privateKey=own.privateKey.original,
            certificate=own.original,
            trustRoot=trustRootFromCertificates(roots),
            raiseMinimumTo=TLSVersion.TLSv1_2,
        )
        self._context = ReloadableContext(options)

    def wrap_in_tls(
        self, factory: IProtocolFactory, clock: IReactorTime, *, dials: bool
    ) -> IProtocolFactory:
        wrapped: IProtocolFactory = (
            TLSMemoryBIOFactory(self._context, True, factory, clock)
            if dials
            else PacedTlsFactory(self._context, factory, clock)
        )
        return wrapped

    def load_again(self) -> Callable[[], bool]:
        """Read the files again, in any thread. Raises `ConfigurationError`.

        Return a function that uses them for later connections, and returns True.
        """
        loaded = NodeCertificate(*self._files)

        def replace() -> bool:
            self._context.replace(loaded._context)
            return True

        return replace


def read_certificates(setting: str, path: Path) -> list[Certificate]:
    """Return the certificates of a PEM file. Raises `ConfigurationError`."""
    return _read(
        setting,
        path,
        lambda text: [
            Certificate.loadPEM(each.public_bytes(Encoding.PEM))
            for each in x509.load_pem_x509_certificates(text)
        ],
    )


def _read(setting: str, path: Path, load: Callable[[bytes], _T]) -> _T:
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{setting} {path} can not be read: {error.strerror}") from None
    except VerifyError:
        raise ConfigurationError(
            f"{setting} {path}: the private key does not belong to the certificate"
        ) from None
    except (ValueError, crypto.Error):
        raise ConfigurationError(f"{setting} {path} lacks the required PEM content") from None


def load_certificate(settings: Settings) -> NodeCertificate | None:
    network = settings.network
    if network.certificate is None or network.authority is None:
        return None
    return NodeCertificate(network.certificate, network.authority, settings.node.name)
