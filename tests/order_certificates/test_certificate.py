"""Certificates: bytes, signatures, and false ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from broker.errors import BadCertificate, ConfigurationError, ProtocolError
from broker.order_certificates.certificate import (
    MOST_CERTIFICATE_BYTES,
    Certificate,
    SignedCertificate,
    block_of,
    decode_certificate,
    encode_certificate,
    sign_certificate,
)
from broker.order_certificates.signing_key import PinnedKey, SigningKey

CERTIFICATE = Certificate(
    *("ops-order", 256, "a", 3, 2, -1, None),
    *(1, bytes(range(32)), 2, bytes(range(32, 64)), True),
)
KEY = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
GOLDEN_STATEMENT = (
    "9ca96f70732d6f72646572cd0100a1610302ffc0"
    "01c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
    "02c420202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
    "c3"
)
#: Ed25519 is deterministic.
GOLDEN_SIGNATURE = (
    "982b54c0d913f0380f0b3c23c23a36b372965d88b71e1a9b7962806fcb4b17a0"
    "bb7efa953782a940ae5725629cd0ad205ec53634a217f3c1c4639efd0840290a"
)


def test_the_bytes_of_a_certificate_are_as_documented() -> None:
    signed = sign_certificate(CERTIFICATE, KEY)
    assert signed.statement.hex() == GOLDEN_STATEMENT
    assert signed.signature.hex() == GOLDEN_SIGNATURE
    data = encode_certificate(signed)
    assert data == b"\x92\xc4\x5b" + signed.statement + b"\xc4\x40" + signed.signature
    assert decode_certificate(data) == signed


def test_a_pinned_key_accepts_its_site_only() -> None:
    signed = sign_certificate(CERTIFICATE, KEY)
    signed.check({"a": [KEY.public]})
    with pytest.raises(BadCertificate, match="no key is pinned for the site a"):
        signed.check({"b": [KEY.public]})
    with pytest.raises(BadCertificate, match="certificate of a: the signature does not belong"):
        signed.check({"a": [SigningKey.generate().public]})


def test_each_pinned_key_of_a_site_counts() -> None:
    signed, other = sign_certificate(CERTIFICATE, KEY), SigningKey.generate().public
    for pinned in ([other, KEY.public], [KEY.public, other]):
        signed.check({"a": pinned})
    with pytest.raises(BadCertificate, match="no key is pinned"):
        signed.check({"a": []})


def test_each_changed_field_makes_the_certificate_false() -> None:
    signed = sign_certificate(CERTIFICATE, KEY)
    changes: dict[str, Any] = {
        "group": "other",
        "width": 1_000_000,
        "site": "b",
        "incarnation": 4,
        "revision": 3,
        "block": 0,
        "previous": -2,
        "count_in_time": 2,
        "root_in_time": bytes(32),
        "count": 3,
        "root": bytes(32),
        "has_missing": False,
    }
    assert changes.keys() == attrs.fields_dict(Certificate).keys()
    for name, value in changes.items():
        other = attrs.evolve(CERTIFICATE, **{name: value})
        statement = sign_certificate(other, KEY).statement
        forged = decode_certificate(
            encode_certificate(SignedCertificate(other, statement, signed.signature))
        )
        with pytest.raises(BadCertificate):
            forged.check({"a": [KEY.public], "b": [KEY.public]})


def test_a_signature_of_the_statement_alone_is_false() -> None:
    signed = sign_certificate(CERTIFICATE, KEY)
    with pytest.raises(BadCertificate):
        attrs.evolve(signed, signature=KEY.sign(signed.statement)).check({"a": [KEY.public]})


def _signed(*fields: object, signature: bytes = bytes(64)) -> bytes:
    return msgspec.msgpack.encode((msgspec.msgpack.encode(fields), signature))


FIELDS = attrs.astuple(CERTIFICATE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x92",
        encode_certificate(sign_certificate(CERTIFICATE, KEY))[:-1],
        encode_certificate(sign_certificate(CERTIFICATE, KEY)) + b"\0",
        _signed(*FIELDS, signature=bytes(63)),
        _signed(*FIELDS[:-1]),
        _signed(*FIELDS, 1),
        _signed("", *FIELDS[1:]),
        _signed("x" * 65, *FIELDS[1:]),
        _signed(FIELDS[0], 0, *FIELDS[2:]),
        _signed(*FIELDS[:7], 3, bytes(32), 2, bytes(32), True),
        _signed(*FIELDS[:7], 1, bytes(31), 2, bytes(32), True),
        _signed(*FIELDS[:7], 1, bytes(32), 2**20 + 1, bytes(32), True),
        _signed(*FIELDS[:5], 2**63, *FIELDS[6:]),
        bytes(MOST_CERTIFICATE_BYTES + 1),
    ],
)
def test_malformed_certificates_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_certificate(data)


def test_the_largest_certificate_is_within_its_bound() -> None:
    most = 2**63 - 1
    largest = Certificate(
        *("g" * 64, 1_000_000, "s" * 64, most, most, -(2**63), -(2**63)),
        *(2**20, bytes(32), 2**20, bytes(32), False),
    )
    signed = sign_certificate(largest, KEY)
    assert decode_certificate(encode_certificate(signed)) == signed


def test_blocks_are_aligned_ranges_of_stamps() -> None:
    assert [block_of(stamp, 256) for stamp in (-257, -256, -1, 0, 255, 256)] == [
        -2,
        -1,
        -1,
        0,
        0,
        1,
    ]
    # A new epoch of a sequencer begins a block: its number has 32 bits.
    assert block_of(5 << 32, 256) * 256 == 5 << 32


# ----------------------------------------------------------------------------- keys


def test_a_stored_key_signs_alike_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "key"
    key = SigningKey.generate()
    key.store(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert SigningKey.load(path).sign(b"x") == key.sign(b"x")
    with pytest.raises(FileExistsError):
        key.store(path)


def test_a_pinned_key_is_written_in_base64() -> None:
    assert str(PinnedKey.parse(str(KEY.public))) == str(KEY.public)
    for text in ("", "*", "AAAA", str(KEY.public) + "AAAA"):
        with pytest.raises(ValueError):
            PinnedKey.parse(text)


def test_other_files_are_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "key"
    with pytest.raises(ConfigurationError, match="can not be read"):
        SigningKey.load(path)
    path.write_bytes(b"secret")
    with pytest.raises(ConfigurationError, match="not an unencrypted private key"):
        SigningKey.load(path)
    other = X25519PrivateKey.generate()
    path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with pytest.raises(ConfigurationError, match="no key for Ed25519"):
        SigningKey.load(path)
