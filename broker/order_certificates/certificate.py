"""Certificate of one block of an order: a statement of a site, and its signature.

A block is an aligned range of stamps, so that all sites divide the order at the same places. The
signed bytes are `DOMAIN` and the statement, a msgpack array of the fields of `Certificate`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import attrs
import msgspec

from broker.errors import BadCertificate, ProtocolError
from broker.order_certificates.merkle import MOST_LEAVES
from broker.order_certificates.signing_key import PinnedKeys, SigningKey

DOMAIN: Final = b"xmlbroker order certificate 1\0"
MOST_CERTIFICATE_BYTES: Final = 512
#: Width of a block in the unit of the stamps: microseconds, or numbers.
TIME_WIDTH: Final = 1_000_000
NUMBER_WIDTH: Final = 256

_MAX_SIGNED: Final = 2**63 - 1
_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MOST_LEAVES)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX_SIGNED)]
_Block: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=_MAX_SIGNED)]
_Hash: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Width: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=TIME_WIDTH)]
_Fields: TypeAlias = tuple[
    _Name,
    _Width,
    _Name,
    _Number,
    _Number,
    _Block,
    _Block | None,
    _Count,
    _Hash,
    _Count,
    _Hash,
    bool,
]
_Signed: TypeAlias = tuple[bytes, Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]]
_statements = msgspec.msgpack.Decoder(_Fields)
_signed = msgspec.msgpack.Decoder(_Signed)
_encode = msgspec.msgpack.Encoder().encode


@attrs.frozen
class Certificate:
    """Statement of a site about one block."""

    group: str
    width: int
    """Of its blocks, in the unit of stamps."""
    site: str
    incarnation: int
    revision: int
    """It rises with each certificate of this block and incarnation."""
    block: int
    """Number of the block: its stamps, divided by `width` and rounded down."""
    previous: int | None
    """Number of the next lower block with events; None if the site does not know it."""
    count_in_time: int
    root_in_time: bytes
    """Of the events that were delivered in time."""
    count: int
    root: bytes
    """Of all events, late ones at their places."""
    has_missing: bool
    """True if events of the block may be missing at the site."""

    @property
    def age(self) -> tuple[int, int]:
        """Sort key of the certificates of one site for one block."""
        return self.incarnation, self.revision


@attrs.frozen
class SignedCertificate:
    """A certificate with its signed bytes, not checked yet."""

    certificate: Certificate
    statement: bytes
    signature: bytes

    def check(self, keys: PinnedKeys) -> None:
        """Raises `BadCertificate` if its site has no pinned key, or has not signed it."""
        site = self.certificate.site
        pinned = keys.get(site)
        if not pinned:
            raise BadCertificate(f"no key is pinned for the site {site}")
        if not any(each.has_signed(self.signature, DOMAIN + self.statement) for each in pinned):
            raise BadCertificate(
                f"certificate of {site}: the signature does not belong to a pinned key"
            )


def block_of(stamp: int, width: int) -> int:
    return stamp // width


def sign_certificate(certificate: Certificate, key: SigningKey) -> SignedCertificate:
    statement = _encode(attrs.astuple(certificate))
    return SignedCertificate(certificate, statement, key.sign(DOMAIN + statement))


def encode_certificate(signed: SignedCertificate) -> bytes:
    return _encode((signed.statement, signed.signature))


def decode_certificate(data: bytes) -> SignedCertificate:
    """Return a certificate, not checked. Raises `ProtocolError`."""
    if len(data) > MOST_CERTIFICATE_BYTES:
        raise ProtocolError(f"an order certificate of {len(data)} bytes")
    try:
        statement, signature = _signed.decode(data)
        certificate = Certificate(*_statements.decode(statement))
    except (msgspec.MsgspecError, ValueError) as error:
        raise ProtocolError(f"malformed order certificate: {error}") from None
    if certificate.count_in_time > certificate.count:
        raise ProtocolError("an order certificate has more events in time than events")
    return SignedCertificate(certificate, statement, signature)
