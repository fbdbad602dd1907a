"""Exchange of clock offers between two sites, before they count each other as connected."""

from __future__ import annotations

#: Seconds for which an own offer goes before that of a site with a larger name.
NEGOTIATION = 1.0
#: Doublings of a lead.
_MOST_DOUBLINGS = 10


class Negotiation:
    """The offers of one site, and those that it has answered.

    An answer must not be below what the offering site has reached until the answer arrives. So it
    leads the offer, by more for each further offer. An answer raises the clock of its site, and so
    what that site's own offers need. So two sites do not answer each other at once: the smaller
    name's offer goes first.
    """

    def __init__(self, site: str) -> None:
        self._site = site
        self._answered: dict[str, int] = {}
        """Offers of sites since they were disconnected."""
        self._offered_at: dict[str, float] = {}
        """Times of own offers to sites that are not connected."""

    @property
    def has_offers(self) -> bool:
        """True if own offers are not answered."""
        return bool(self._offered_at)

    @property
    def end(self) -> float:
        """Time at which no own offer is expected to be answered any more."""
        return max(self._offered_at.values(), default=-NEGOTIATION) + NEGOTIATION

    def begin(self, site: str, now: float) -> None:
        """Record an own offer to a site."""
        self._offered_at[site] = now

    def goes_first(self, site: str, now: float) -> bool:
        """Return True while this site's own offer is to be answered before that of the site."""
        offered_at = self._offered_at.get(site)
        is_waiting = offered_at is not None and now < offered_at + NEGOTIATION
        return is_waiting and self._site < site

    def count_answered(self, site: str) -> int:
        return self._answered.get(site, 0)

    def lead_of(self, site: str, least: int) -> int:
        """Return a lead of the next answer to a site, `least` at first."""
        return least << min(self.count_answered(site), _MOST_DOUBLINGS)

    def record_answer(self, site: str) -> None:
        self._answered[site] = self.count_answered(site) + 1

    def connect(self, site: str) -> None:
        """Record that an own offer was answered."""
        self._offered_at.pop(site, None)

    def disconnect(self, site: str) -> None:
        self._offered_at.pop(site, None)
        self._answered.pop(site, None)
