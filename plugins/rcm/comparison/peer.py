"""Another site's part in the comparison."""

from __future__ import annotations

from typing import Final

from plugins.rcm.certificates.token_bucket import TokenBucket
from plugins.rcm.comparison.packet import Offer

#: Bytes for a site that is not connected; they take room in its link from the order.
MOST_BUFFERED: Final = 512 << 10


class Peer:
    """A wrong packet ends the part of a site, until it restarts. Its link and the order go on."""

    def __init__(self, site: str) -> None:
        self.site = site
        self.variants: frozenset[str] = frozenset()
        """Variants that it compares too."""
        self.is_linked = False
        self.error = ""
        """Reason for which its packets are dropped."""
        self.dropped = 0
        """Packets for which there was no room, or that came too often."""
        self.bucket = TokenBucket()
        self.offers: dict[str, int] = {}
        """Exchange of the open offer of each variant."""
        self.unanswered: dict[str, tuple[int, int]] = {}
        """Exchange and clock of offers that must be answered later."""
        self.incarnation = -1
        self._exchange = 0
        self._buffered = 0

    @property
    def takes_part(self) -> bool:
        return bool(self.variants) and not self.error

    def accept_offer(self, offer: Offer, sites: tuple[str, ...], variants: frozenset[str]) -> bool:
        """Return False for an offer of a site that has no part, or not any more."""
        if offer.incarnation < self.incarnation or offer.sites != sites:
            return False
        if offer.incarnation > self.incarnation:
            self.incarnation = offer.incarnation
            self.error = ""
        if self.error:
            return False
        self.variants = variants & set(offer.variants)
        return True

    def next_exchange(self) -> int:
        self._exchange += 1
        return self._exchange

    def link(self, *, is_linked: bool) -> None:
        """Handle that the site is connected or not, from now on."""
        self.is_linked = is_linked
        self._buffered = 0
        self.offers.clear()
        self.unanswered.clear()

    def has_room(self, size: int) -> bool:
        """Count bytes that are to be sent. Return False if they must not be."""
        if not self.is_linked:
            self._buffered += size
            if self._buffered > MOST_BUFFERED:
                self.dropped += 1
                return False
        return True
