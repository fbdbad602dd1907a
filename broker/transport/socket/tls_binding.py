"""Channel bindings of TLS: data that only the two ends of one connection share.

A proof over them is worthless on another connection, so nobody in between can pass it on.
"""

from __future__ import annotations

import hashlib
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL

#: RFC 9266, of TLS 1.3; the connection's keys.
EXPORTER: Final = "tls-exporter"
#: RFC 5929; the server's certificate. Python's `ssl` has no exporter.
END_POINT: Final = "tls-server-end-point"
_EXPORTER_LABEL: Final = b"EXPORTER-Channel-Binding"
_EXPORTER_BYTES: Final = 32
_WEAK_HASHES: Final = ("md5", "sha1")


def end_point_data(certificate: bytes) -> bytes:
    """Return the binding to a server's certificate, in DER: its hash, by its signature's hash."""
    read = x509.load_der_x509_certificate(certificate).signature_hash_algorithm
    # Ed25519 names no hash.
    name = "sha256" if read is None or read.name in _WEAK_HASHES else read.name
    return hashlib.new(name, certificate).digest()


def exporter_data(connection: SSL.Connection) -> bytes | None:
    """Return the binding to the connection's keys; None before TLS 1.3."""
    if connection.get_protocol_version_name() != "TLSv1.3":
        # Without the extended master secret, someone in between can make two of them equal.
        return None
    return connection.export_keying_material(_EXPORTER_LABEL, _EXPORTER_BYTES)


def server_binding(connection: SSL.Connection, kind: str) -> bytes | None:
    """Return the data at the server's end; None for a kind that is not available."""
    if kind == EXPORTER:
        return exporter_data(connection)
    certificate = connection.get_certificate() if kind == END_POINT else None
    return None if certificate is None else end_point_data(der_of(certificate.to_cryptography()))


def der_of(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.DER)
