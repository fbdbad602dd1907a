"""Inquiry for the leaves of a block at another site, page by page."""

from __future__ import annotations

from broker.errors import BadCertificate
from broker.order_certificates.certificate import Certificate
from broker.order_certificates.leaf import Leaf, decode_leaf
from broker.order_certificates.merkle import hash_leaf, root_of
from plugins.rcm.certificates.packet import LeafRequest, Leaves

#: Seconds for an answer; then the inquiry begins anew.
PATIENCE = 10.0
MOST_ATTEMPTS = 3


class LeafInquiry:
    """The leaves must have the signed root, unless the block has changed meanwhile."""

    def __init__(self, certificate: Certificate, now: float) -> None:
        self.certificate = certificate
        self.deadline = now + PATIENCE
        self.is_failed = False
        self._attempts = 1
        self._data: list[bytes] = []

    @property
    def block(self) -> int:
        return self.certificate.block

    def request(self) -> LeafRequest:
        return LeafRequest(self.block, len(self._data))

    def expects(self, page: Leaves) -> bool:
        return page.block == self.block and page.first == len(self._data)

    def add_page(self, page: Leaves, now: float) -> list[Leaf] | None:
        """Add an expected page. Return all leaves; None until they are there.

        Raises `ProtocolError` for malformed leaves, `BadCertificate` for those of another root.
        """
        if page.count != self.certificate.count or not page.leaves:
            # The block has changed, or has no leaves any more.
            self.try_again(now)
            return None
        self._data += page.leaves
        self.deadline = now + PATIENCE
        if len(self._data) < page.count:
            return None
        if root_of([hash_leaf(each) for each in self._data]) != self.certificate.root:
            self.try_again(now)
            if self.is_failed:
                raise BadCertificate(f"the events of block {self.block} have another root")
            return None
        return [decode_leaf(each) for each in self._data]

    def try_again(self, now: float) -> None:
        self._data = []
        self.deadline = now + PATIENCE
        self.is_failed = self._attempts >= MOST_ATTEMPTS
        self._attempts += 1
