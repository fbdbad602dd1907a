"""Certificates of one other site, compared with own ones."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from broker.errors import BadCertificate
from broker.order_certificates.certificate import SignedCertificate, decode_certificate
from broker.order_certificates.comparison import (
    Difference,
    Kind,
    Verdict,
    compare_certificates,
    find_difference,
)
from broker.order_certificates.leaf import Leaf, decode_leaf
from broker.order_certificates.signing_key import PinnedKeys
from plugins.rcm.certificates.block_builder import BlockBuilder
from plugins.rcm.certificates.leaf_inquiry import LeafInquiry
from plugins.rcm.certificates.packet import LeafRequest, Leaves
from plugins.rcm.certificates.token_bucket import TokenBucket

#: Of one site; the lowest blocks are dropped first.
MOST_CERTIFICATES = 2_048
#: Seconds for which a block must differ: events that are under way make no difference.
SETTLING = 5.0
#: Events of a block that are compared one by one.
MOST_COMPARED = 32_768


@attrs.frozen
class NamedDifference:
    """The lowest differing block of two sites, and its first event that differs."""

    block: int
    difference: Difference | None
    """None if the leaves are not there any more."""

    def __str__(self) -> str:
        if self.difference is None:
            return f"block {self.block}"
        return f"block {self.block}: {self.difference.kind.value} {self.difference.leaf.event_id}"


class Peer:
    """Another site. It is bounded by `MOST_CERTIFICATES`, and one inquiry at a time."""

    def __init__(self, site: str, keys: PinnedKeys, builder: BlockBuilder) -> None:
        self.site = site
        self.is_connected = False
        self.unsent: set[int] = set()
        """Own blocks whose certificates a connected site must get."""
        self.bucket = TokenBucket()
        self.certificates: dict[int, SignedCertificate] = {}
        self.stale = 0
        self.rejected = 0
        self.flooded = 0
        self.error = ""
        """Reason of the last rejection."""
        self.inquiry: LeafInquiry | None = None
        self.named: NamedDifference | None = None
        self._keys = keys
        self._builder = builder
        self._incarnation = -1
        self._verdicts: dict[int, Verdict] = {}
        self._differing: dict[int, float] = {}
        """Blocks that differ, with the times since when."""
        self._named_ages: object = None

    # ----------------------------------------------------------------- certificates

    def accept(self, data: bytes, now: float) -> None:
        """Record a certificate of the site. Raises `ProtocolError` or `BadCertificate`."""
        signed = decode_certificate(data)
        found = signed.certificate
        builder = self._builder
        for name, value, expected in (
            ("site", found.site, self.site),
            ("group", found.group, builder.group),
            ("width", found.width, builder.width),
        ):
            if value != expected:
                raise BadCertificate(f"{self.site} sent a certificate of the {name} {value}")
        known = self.certificates.get(found.block)
        if known is not None and found.age <= known.certificate.age:
            self.stale += 1
            return
        signed.check(self._keys)
        if found.incarnation > self._incarnation:
            # A new process, which knows none of the certificates sent before.
            self._incarnation = found.incarnation
            self.unsent.update(builder.with_leaves)
        self.certificates[found.block] = signed
        if len(self.certificates) > MOST_CERTIFICATES:
            lowest = min(self.certificates)
            for each in (self.certificates, self._verdicts, self._differing):
                each.pop(lowest, None)
        self.compare(found.block, now)

    def connect(self) -> None:
        """Send certificates again, except where the orders are equal."""
        self.is_connected = True
        equal = Verdict.EQUAL
        self.unsent.update(
            block for block in self._builder.with_leaves if self._verdicts.get(block) is not equal
        )

    def disconnect(self) -> None:
        self.is_connected = False
        self.unsent.clear()
        self.inquiry = None

    def take_unsent(self, most: int) -> list[SignedCertificate]:
        """Remove and return certificates to send, the lowest blocks first."""
        blocks = sorted(self.unsent)[:most]
        self.unsent.difference_update(blocks)
        found = (self._builder.certificate_of(block) for block in blocks)
        return [each for each in found if each is not None]

    # ----------------------------------------------------------------- comparison

    def compare(self, block: int, now: float) -> None:
        """Compare a block, after one of the certificates has changed."""
        verdict = self._judge(block)
        if verdict is None:
            self._verdicts.pop(block, None)
        else:
            self._verdicts[block] = verdict
        if verdict is Verdict.DIFFERENT:
            self._differing.setdefault(block, now)
        else:
            self._differing.pop(block, None)
            if not self._differing or (self.named is not None and self.named.block == block):
                self.named = None

    def _judge(self, block: int) -> Verdict | None:
        other, own = self.certificates.get(block), self._builder.certificate_of(block)
        if other is None:
            return None
        if own is not None:
            return compare_certificates(own.certificate, other.certificate)
        if self._builder.block(block) is not None:
            # It is not signed yet.
            return None
        if not other.certificate.count:
            # Its events have moved.
            return Verdict.EQUAL
        is_missing = self._builder.is_missing(block) or other.certificate.has_missing
        return Verdict.MISSING if is_missing else Verdict.DIFFERENT

    def count(self, verdict: Verdict) -> int:
        return sum(each is verdict for each in self._verdicts.values())

    @property
    def has_differences(self) -> bool:
        return bool(self._differing) or self.inquiry is not None

    # ----------------------------------------------------------------- inquiries

    def inquire(self, now: float) -> LeafRequest | None:
        """Return a request for leaves of the lowest differing block, if it is due."""
        inquiry = self.inquiry
        if inquiry is not None:
            if now < inquiry.deadline:
                return None
            inquiry.try_again(now)
            return self._continue(inquiry, now)
        block = self._lowest_difference(now)
        if block is None or not self.is_connected:
            return None
        ages = self._ages(block)
        if self.named is not None and self._named_ages == ages:
            return None
        self._named_ages = ages
        return self._begin(block, now)

    def add_page(self, page: Leaves, now: float) -> LeafRequest | None:
        """Handle leaves of the site, and return the next request.

        Raises `ProtocolError`, or `BadCertificate` for leaves that it has not signed.
        """
        inquiry = self.inquiry
        if inquiry is None or not inquiry.expects(page):
            return None
        leaves = inquiry.add_page(page, now)
        if leaves is None:
            return self._continue(inquiry, now)
        self.inquiry = None
        return self._name(inquiry.block, leaves, now)

    def fail_inquiry(self) -> None:
        """End the inquiry without a result."""
        if self.inquiry is not None:
            self.named = NamedDifference(self.inquiry.block, None)
            self.inquiry = None

    def _begin(self, block: int, now: float) -> LeafRequest | None:
        other = self.certificates.get(block)
        if other is None or other.certificate.count > MOST_COMPARED:
            self.named = NamedDifference(block, None)
            return None
        if not other.certificate.count:
            return self._name(block, [], now)
        self.inquiry = LeafInquiry(other.certificate, now)
        return self.inquiry.request()

    def _continue(self, inquiry: LeafInquiry, now: float) -> LeafRequest | None:
        other = self.certificates.get(inquiry.block)
        if other is None or other.certificate.age > inquiry.certificate.age:
            self.inquiry = None
            return self._begin(inquiry.block, now)
        if inquiry.is_failed:
            self.fail_inquiry()
            return None
        return inquiry.request()

    def _name(self, block: int, other: list[Leaf], now: float) -> LeafRequest | None:
        own = self._builder.block(block)
        if own is not None and not own.has_leaves:
            self.named = NamedDifference(block, None)
            return None
        difference = find_difference([] if own is None else list(own.leaves()), other)
        if difference is not None:
            self.named = NamedDifference(block, difference)
            return None
        return self._name_between(block, now)

    def _name_between(self, block: int, now: float) -> LeafRequest | None:
        """Name the first event of a block between this one, which is equal, and the previous."""
        other = self.certificates[block].certificate.previous
        own = self._builder.previous_of(block)
        if own is None or other is None or own == other:
            return None
        if other > own:
            return self._begin(other, now)
        found = self._builder.block(own)
        assert found is not None
        leaf = decode_leaf(found.data[0]) if found.data else None
        difference = None if leaf is None else Difference(Kind.DROPPED, leaf)
        self.named = NamedDifference(own, difference)
        return None

    def _lowest_difference(self, now: float) -> int | None:
        return min(self.settled_differences(now), default=None)

    def settled_differences(self, now: float) -> Iterator[int]:
        return (block for block, since in self._differing.items() if now >= since + SETTLING)

    def _ages(self, block: int) -> object:
        own, other = self._builder.certificate_of(block), self.certificates.get(block)
        return (
            *(block, None if own is None else own.certificate.age),
            None if other is None else other.certificate.age,
        )
