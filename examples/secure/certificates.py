"""Certificates for `localhost` and 127.0.0.1, valid until tomorrow: for examples and tests."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@attrs.frozen
class Certificate:
    key: Path
    certificate: Path

    def write_combined(self) -> Path:
        both = self.certificate.with_suffix(".both.pem")
        both.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
        return both


def make_certificate(folder: Path, name: str, issuer: Certificate | None = None) -> Certificate:
    """A certificate without an issuer may issue others."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, signed_by = key, subject
    if issuer is not None:
        loaded = serialization.load_pem_private_key(issuer.key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer = loaded
        signed_by = x509.load_pem_x509_certificate(issuer.certificate.read_bytes()).subject
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    authority = x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority, critical=True)
        .sign(signer, hashes.SHA256())
    )
    made = Certificate(folder / f"{name}-key.pem", folder / f"{name}.pem")
    made.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return made
