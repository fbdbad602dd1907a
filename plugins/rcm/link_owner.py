"""A site's part in the handshake of its link to another site."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

from broker.errors import NotAllowed
from broker.transport.monitor import ILinkOwner
from plugins.rcm.effects import GroupEffect
from plugins.rcm.group import Group
from plugins.rcm.handshake import (
    Offer,
    Terms,
    check_terms,
    decode_answer,
    decode_offer,
    encode_answer,
    encode_offer,
)
from plugins.rcm.membership import Membership

#: Seconds for which a site that has left may read the list of sites.
FAREWELL = 1.0


@implementer(ILinkOwner)
class LinkOwner:
    """The owner of one link. It counts the other site as connected after its answer."""

    def __init__(
        self,
        group: Group,
        site: str,
        terms: Terms,
        membership: Membership,
        origin: str,
        read_clock: Callable[[float], int],
        connected: Callable[[str, list[GroupEffect]], object],
    ) -> None:
        """`site` is the other one, `origin` the own log. `connected` gets the effects of a
        connection."""
        self.read_site_clock = read_clock
        self._group = group
        self._site = site
        self._terms = terms
        self._membership = membership
        self._end: float | None = None
        """Of the farewell to a site that has left."""
        self._origin = origin
        self._connected = connected

    def make_offer(self, now: float) -> bytes:
        clock = self._group.make_offer(self._site, now)
        names, sites = self._group.codec.names, self._membership.sites.records
        return encode_offer(Offer(self._terms, self._origin, clock, names, sites))

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        found = decode_offer(offer)
        check_terms(self._terms, found.terms)
        membership = self._membership
        if not membership.is_member(self._site) or not membership.learn(self._site, found.sites):
            self._refuse(now)
            return None
        self._group.codec.set_names(self._site, found.names)
        clock = self._group.answer_offer(self._site, found.clock, now)
        if clock is None:
            return None
        self._group.origins[self._site] = found.origin
        return encode_answer(clock)

    def _refuse(self, now: float) -> None:
        """Raises `NotAllowed`, but first let this site's offer arrive."""
        if self._membership.is_member(self._site):
            # The list is not on disk yet.
            return
        if self._end is None:
            self._end = now + FAREWELL
        if now >= self._end:
            raise NotAllowed(f"{self._site} was removed from the group")

    def accept_answer(self, answer: bytes, now: float) -> bool:
        if not self._membership.is_member(self._site):
            return False
        effects = self._group.accept_answer(self._site, decode_answer(answer), now)
        if effects is None:
            return False
        self._connected(self._site, effects)
        return True
