from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from OpenSSL import SSL

from broker.cluster.node_certificate import NodeCertificate
from broker.errors import ConfigurationError
from tests.system.certificates import make_certificate

#: Twisted passes its own kind of certificates.
pytestmark = pytest.mark.filterwarnings("ignore:Passing pyOpenSSL:DeprecationWarning")


def presented(certificate: NodeCertificate) -> int | None:
    """Return the serial number that the next connection presents."""
    connection = SSL.Connection(certificate._context.getContext(), None)
    own = connection.get_certificate()
    return None if own is None else own.get_serial_number()


def test_later_connections_present_the_certificate_of_the_last_load(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")
    first = make_certificate(tmp_path, "n1", authority).write_combined()
    file = tmp_path / "node.pem"
    shutil.copy(first, file)
    certificate = NodeCertificate(file, authority.certificate, "n1")
    before = presented(certificate)
    shutil.copy(make_certificate(tmp_path, "n1", authority).write_combined(), file)
    replace = certificate.load_again()
    assert presented(certificate) == before
    assert replace()
    after = presented(certificate)
    assert after not in (before, None)


@pytest.mark.parametrize("content", ["", "another name"])
def test_an_unusable_file_leaves_the_certificate(tmp_path: Path, content: str) -> None:
    authority = make_certificate(tmp_path, "authority")
    file = make_certificate(tmp_path, "n1", authority).write_combined()
    certificate = NodeCertificate(file, authority.certificate, "n1")
    before = presented(certificate)
    if content:
        shutil.copy(make_certificate(tmp_path, "n2", authority).write_combined(), file)
    else:
        file.write_text("")
    with pytest.raises(ConfigurationError, match="network.certificate"):
        certificate.load_again()
    assert presented(certificate) == before
