from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from broker.client.address import (
    NO_FILES,
    TlsFiles,
    load_certificates,
    make_tls_context,
    parse_address,
)
from broker.errors import ConfigurationError


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        ("tcp:localhost:8765", ("tcp", "localhost", 8765)),
        ("tls:example.org:443", ("tls", "example.org", 443)),
        (r"tcp:\:\:1:8765", ("tcp", "::1", 8765)),
        ("tcp:::1:8765", ("tcp", "::1", 8765)),
    ],
)
def test_an_endpoint_is_parsed(endpoint: str, address: tuple[str, str, int]) -> None:
    assert parse_address(endpoint) == address


@pytest.mark.parametrize(
    "endpoint",
    ["", "tcp", "tcp:8765", "tcp::8765", "udp:host:1", "tcp:host:", "tcp:host:x", "tcp:host:65536"],
)
def test_an_invalid_endpoint_is_refused_with_the_expected_form(endpoint: str) -> None:
    with pytest.raises(ValueError, match="tcp:HOST:PORT|0 to 65535"):
        parse_address(endpoint)


def test_without_trust_the_systems_authorities_apply() -> None:
    assert make_tls_context(NO_FILES).verify_mode is ssl.CERT_REQUIRED


def test_certificates_are_found_between_other_lines(tmp_path: Path) -> None:
    block = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    file = tmp_path / "roots.pem"
    file.write_bytes(b"CN=caf\xe9\n" + block + b"\n\nanother\n" + block + b"\n")
    assert load_certificates(file) == [block, block]


@pytest.mark.parametrize("content", [None, b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_file_without_certificates_is_named_in_the_error(
    content: bytes | None, tmp_path: Path
) -> None:
    file = tmp_path / "roots.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match="roots.pem"):
        make_tls_context(TlsFiles(file))
