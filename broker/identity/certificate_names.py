"""Names in a certificate, as the settings write them."""

from __future__ import annotations

from cryptography import x509
from cryptography.x509.oid import ExtensionOID


def read_names(certificate: bytes) -> tuple[list[str], float]:
    """Return the subject and the alternative names, and the end of validity (s since 1970)."""
    read = x509.load_der_x509_certificate(certificate)
    names = [read.subject.rfc4514_string()]
    try:
        extension = read.extensions.get_extension_for_oid(ExtensionOID.SUBJECT_ALTERNATIVE_NAME)
    except x509.ExtensionNotFound:
        pass
    else:
        alternatives = extension.value
        assert isinstance(alternatives, x509.SubjectAlternativeName)
        of_type = alternatives.get_values_for_type
        names += [f"dns:{name.lower()}" for name in of_type(x509.DNSName)]
        names += [f"URI:{name}" for name in of_type(x509.UniformResourceIdentifier)]
        names += [f"email:{name}" for name in of_type(x509.RFC822Name)]
    return names, read.not_valid_after_utc.timestamp()
