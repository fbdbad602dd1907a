"""Addresses of nodes, and the certificates that are accepted there."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

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


def make_tls_context(trust: Path | None) -> ssl.SSLContext:
    """Accept certificates signed by one in `trust`; None: by the system's.

    Raises `ConfigurationError`.
    """
    if trust is None:
        return ssl.create_default_context()
    certificates = b"\n".join(load_certificates(trust)).decode("ascii", "replace")
    try:
        return ssl.create_default_context(cadata=certificates)
    except ssl.SSLError as error:
        raise ConfigurationError(f"the certificates in {trust} are not usable: {error}") from None


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
