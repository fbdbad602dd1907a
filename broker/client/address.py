"""Addresses of nodes, and the certificates that are accepted there."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final

import attrs

from broker.errors import ConfigurationError

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)


def parse_address(endpoint: str) -> tuple[str, str, int]:
    """Return (`tcp` or `tls`, host, port). Raises `ValueError` with the expected form.

    A backslash may escape a colon in the host, as in Twisted.
    """
    kind, _, rest = endpoint.partition(":")
    host, _, port = rest.rpartition(":")
    if kind not in ("tcp", "tls") or not host or not re.fullmatch("[0-9]{1,5}", port):
        raise ValueError("an endpoint is tcp:HOST:PORT, tls:HOST:PORT or unix:PATH")
    if int(port) > 65535:
        raise ValueError("a port is 0 to 65535")
    return kind, host.replace("\\:", ":"), int(port)


@attrs.frozen
class TlsFiles:
    """PEM files for `tls:` endpoints."""

    trust: Path | None = None
    """Accepted authorities; None: the system's."""
    certificate: Path | None = None
    """The client's certificate, with those between it and an authority."""
    key: Path | None = None
    """The private key; None: it is in `certificate`."""

    @property
    def is_default(self) -> bool:
        return self == NO_FILES


NO_FILES: Final = TlsFiles()


def make_tls_context(files: TlsFiles) -> ssl.SSLContext:
    """Raises `ConfigurationError`."""
    trust = files.trust
    certificates = None
    if trust is not None:
        certificates = b"\n".join(load_certificates(trust)).decode("ascii", "replace")
    try:
        context = ssl.create_default_context(cadata=certificates)
    except ssl.SSLError as error:
        raise ConfigurationError(f"the certificates in {trust} are not usable: {error}") from None
    if files.certificate is not None:
        try:
            # An empty password: a prompt would stop the process.
            context.load_cert_chain(files.certificate, files.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"{files.certificate} with its private key is not usable: {error}"
            ) from None
    elif files.key is not None:
        raise ConfigurationError("a private key needs a certificate")
    return context


def load_certificates(trust: Path) -> list[bytes]:
    """Raises `ConfigurationError` if the PEM file has no certificate."""
    try:
        # Text between them may have any encoding.
        found = _CERTIFICATE.findall(trust.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"the certificates in {trust} can not be read: {error}") from None
    if not found:
        raise ConfigurationError(f"{trust} holds no certificate in PEM form")
    return found
