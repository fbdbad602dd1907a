"""Certificates of nodes: both ends of a TCP link show by them which node they are (X12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import crypto
from twisted.internet.error import VerifyError
from twisted.internet.interfaces import IProtocolFactory
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
from broker.transport.socket.tcp import common_name

_T = TypeVar("_T")


class NodeCertificate:
    """A node's own certificate, and the authority that has issued those of all nodes.

    The common name in a certificate is the node's name. Both ends show theirs, and go on only with
    one of the authority; the greeting compares the name with the one that the peer says.
    """

    def __init__(self, certificate: Path, authority: Path, node: str) -> None:
        """Both are PEM files, the first with the private key. Raises `ConfigurationError`."""
        own = _read("network.certificate", certificate, PrivateCertificate.loadPEM)
        roots = _read(
            "network.authority",
            authority,
            lambda text: [
                Certificate.loadPEM(each.public_bytes(Encoding.PEM))
                for each in x509.load_pem_x509_certificates(text)
            ],
        )
        name = common_name(own.original)
        if name != node:
            raise ConfigurationError(
                f"network.certificate {certificate} is of {name!r}, but node.name is {node!r}"
            )
        self._options: Any = CertificateOptions(
            privateKey=own.privateKey.original,
            certificate=own.original,
            trustRoot=trustRootFromCertificates(roots),
            raiseMinimumTo=TLSVersion.TLSv1_2,
        )

    def wrap_in_tls(self, factory: IProtocolFactory, *, dials: bool) -> IProtocolFactory:
        """A factory of the same protocols, for the end of a connection that dials or answers."""
        wrapped: IProtocolFactory = TLSMemoryBIOFactory(self._options, dials, factory)
        return wrapped


def _read(setting: str, path: Path, load: Callable[[bytes], _T]) -> _T:
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{setting} {path} can not be read: {error.strerror}") from None
    except VerifyError:
        raise ConfigurationError(
            f"{setting} {path}: the private key is not that of the certificate"
        ) from None
    except (ValueError, crypto.Error):
        raise ConfigurationError(f"{setting} {path} has not what it must have, in PEM") from None


def load_certificate(settings: Settings) -> NodeCertificate | None:
    """Those that the settings name, if they name any. Raises `ConfigurationError`."""
    network = settings.network
    if network.certificate is None or network.authority is None:
        return None
    return NodeCertificate(network.certificate, network.authority, settings.node.name)
