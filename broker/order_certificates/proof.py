"""Proofs of events and blocks for clients: leaves, a path, and certificates of sites.

A client checks them against pinned keys. It need not trust the node that answered.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Annotated, TypeAlias, TypeVar

import attrs
import msgspec

from broker.errors import BadCertificate, ProtocolError
from broker.order_certificates.certificate import (
    MOST_CERTIFICATE_BYTES,
    Certificate,
    block_of,
    decode_certificate,
)
from broker.order_certificates.leaf import MOST_LEAF_BYTES, Leaf, decode_leaf
from broker.order_certificates.merkle import HASH_BYTES, hash_leaf, root_by_path, root_of
from broker.order_certificates.signing_key import PinnedKeys

#: Certificates in a proof, one of each site.
MOST_SITES = 32
#: Leaves in one answer about a block.
MOST_PAGE_LEAVES = 1_024

_Struct = TypeVar("_Struct", bound=msgspec.Struct)
#: Raises `BadCertificate` for a certificate about something else.
_IsProved: TypeAlias = Callable[[Certificate], bool]
_Hash: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=HASH_BYTES, max_length=HASH_BYTES)]
_Path: TypeAlias = Annotated[tuple[_Hash, ...], msgspec.Meta(max_length=20)]
_Index: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31)]
_Leaf: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MOST_LEAF_BYTES)]
_Certificates: TypeAlias = Annotated[
    tuple[Annotated[bytes, msgspec.Meta(max_length=MOST_CERTIFICATE_BYTES)], ...],
    msgspec.Meta(max_length=MOST_SITES),
]


class EventProof(msgspec.Struct, frozen=True, kw_only=True):
    """Proof that an event has its place in a block."""

    leaf: _Leaf
    index: _Index
    path: _Path
    certificates: _Certificates
    index_in_time: _Index | None = None
    """In the tree of events that the answering site delivered in time; None for a late event."""
    path_in_time: _Path = ()


class BlockPage(msgspec.Struct, frozen=True, kw_only=True):
    """Leaves of a block from `first` on, and the next higher block."""

    block: int
    width: int
    first: _Index
    count: _Index
    leaves: Annotated[tuple[_Leaf, ...], msgspec.Meta(max_length=MOST_PAGE_LEAVES)]
    certificates: _Certificates
    following: int | None


class Outcome(enum.Enum):
    """Result of one certificate."""

    PROVED = "proved"
    #: The site has signed that it may not have all events of the block.
    MISSING = "missing"
    #: The site has signed another block.
    DIFFERENT = "different"
    #: No key of the site is pinned.
    NO_KEY = "no-key"
    #: Not signed by the site, or about something else.
    FALSE = "false"


@attrs.frozen
class SiteOutcome:
    site: str
    outcome: Outcome
    certificate: Certificate
    in_time: bool | None = None
    """Of a proved event: delivered in time; None if it is not known."""
    reason: str = ""


def read_event_proof(value: object) -> EventProof:
    """Return a proof from plain values. Raises `ProtocolError`."""
    return _convert(value, EventProof)


def read_block_page(value: object) -> BlockPage:
    """Raises `ProtocolError`."""
    return _convert(value, BlockPage)


def verify_event(proof: EventProof, group: str, keys: PinnedKeys) -> tuple[Leaf, list[SiteOutcome]]:
    """Return the place of an event, and the outcome for each site.

    Raises `ProtocolError` for a malformed proof.
    """
    leaf = decode_leaf(proof.leaf)
    hashed = hash_leaf(proof.leaf)

    def is_proved(certificate: Certificate) -> bool:
        if block_of(leaf.stamp, certificate.width) != certificate.block:
            raise BadCertificate(f"block {certificate.block} does not contain {leaf.stamp}")
        root, count = certificate.root, certificate.count
        return _leads_to(hashed, proof.index, count, proof.path, root)

    def was_in_time(certificate: Certificate) -> bool | None:
        if proof.index_in_time is None:
            return None
        root, count = certificate.root_in_time, certificate.count_in_time
        is_shown = _leads_to(hashed, proof.index_in_time, count, proof.path_in_time, root)
        return True if is_shown else None

    outcomes = [
        attrs.evolve(each, in_time=was_in_time(each.certificate))
        if each.outcome is Outcome.PROVED
        else each
        for each in _judge(proof.certificates, group, keys, is_proved)
    ]
    return leaf, outcomes


def verify_block(
    block: int,
    leaves: Sequence[bytes],
    certificates: Sequence[bytes],
    group: str,
    keys: PinnedKeys,
) -> tuple[list[Leaf], list[SiteOutcome]]:
    """Return all events of a block, in order, and the outcome for each site.

    Raises `ProtocolError` for malformed leaves, or a wrong order of them.
    """
    found = [decode_leaf(each) for each in leaves]
    if any(later.key <= earlier.key for earlier, later in pairwise(found)):
        raise ProtocolError(f"the events of block {block} are not in order")
    root = root_of([hash_leaf(each) for each in leaves])

    def is_proved(certificate: Certificate) -> bool:
        if certificate.block != block:
            raise BadCertificate(f"the certificate is for block {certificate.block}, not {block}")
        if any(block_of(leaf.stamp, certificate.width) != block for leaf in found):
            raise BadCertificate(f"an event is not in block {block}")
        return (certificate.root, certificate.count) == (root, len(found))

    return found, list(_judge(certificates, group, keys, is_proved))


def _judge(
    certificates: Sequence[bytes],
    group: str,
    keys: PinnedKeys,
    is_proved: _IsProved,
) -> Iterator[SiteOutcome]:
    """Yield the outcome for the first certificate of each site."""
    sites: set[str] = set()
    for data in certificates:
        signed = decode_certificate(data)
        certificate = signed.certificate
        site = certificate.site
        if site in sites:
            continue
        sites.add(site)
        if site not in keys:
            yield SiteOutcome(site, Outcome.NO_KEY, certificate)
            continue
        try:
            signed.check(keys)
            if certificate.group != group:
                raise BadCertificate(f"certificate of the group {certificate.group}")
            if is_proved(certificate):
                outcome = Outcome.PROVED
            elif certificate.has_missing:
                outcome = Outcome.MISSING
            else:
                outcome = Outcome.DIFFERENT
            yield SiteOutcome(site, outcome, certificate)
        except BadCertificate as error:
            yield SiteOutcome(site, Outcome.FALSE, certificate, reason=error.text)


def _leads_to(leaf: bytes, index: int, count: int, path: Sequence[bytes], root: bytes) -> bool:
    try:
        return root_by_path(leaf, index, count, path) == root
    except ValueError:
        return False


def _convert(value: object, kind: type[_Struct]) -> _Struct:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ProtocolError(f"malformed proof: {error}") from None
