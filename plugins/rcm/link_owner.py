"""A site's part in the handshake of its link to another site, or to a node outside."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

from broker.transport.monitor import ILinkOwner
from broker.transport.view import LinkState
from plugins.rcm.effects import GroupEffect, ReportStatus
from plugins.rcm.group import Group
from plugins.rcm.handshake import (
    Answer,
    Loss,
    Offer,
    Terms,
    check_terms,
    decode_answer,
    decode_offer,
    encode_answer,
    encode_offer,
)
from plugins.rcm.membership import Membership

#: Seconds for which the other end of a link that does not connect may read the list of sites.
READING = 1.0


@implementer(ILinkOwner)
class LinkOwner:
    """The owner of one link. It counts the other site as connected after its answer.

    Before that, the node has got the events that links have lost (`plugins.rcm.losses`).

    A link between a site and a node outside of the group does not connect. Both ends send their
    lists, and that of the site counts: so the other node learns that it is outside. Then the link
    ends. It is dialled again until the node is admitted.
    """

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
        self._origin = origin
        self._connected = connected
        self._has_begun = False
        """True if the link may have lost messages."""
        self._ends_at: float | None = None
        """Of a link to a node outside."""

    def make_offer(self, now: float) -> bytes:
        group, site = self._group, self._site
        if not self._membership.accepts(site):
            sites = self._membership.sites.records
            return encode_offer(Offer(self._terms, self._origin, Loss(0), None, (), sites))
        if not self._has_begun:
            self._has_begun = True
            group.losses.begin_link(site)
        clock = None if group.is_recovering(site, now) else group.make_offer(site, now)
        loss = group.losses.loss_to(site)
        names, sites = group.codec.names, self._membership.sites.records
        return encode_offer(Offer(self._terms, self._origin, loss, clock, names, sites))

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        found = decode_offer(offer)
        check_terms(self._terms, found.terms)
        group, site, membership = self._group, self._site, self._membership
        # The list of a node outside does not count.
        has_learned = membership.is_member(site) and membership.learn(site, found.sites)
        if not membership.accepts(site):
            self._refuse(now)
        if not (has_learned and membership.accepts(site)):
            return None
        group.codec.set_names(site, found.names)
        self._accept_loss(found.origin, found.loss)
        if found.clock is None or group.is_recovering(site, now):
            return None
        clock = group.answer_offer(site, found.clock, now)
        if clock is None:
            return None
        return encode_answer(Answer(self._origin, group.losses.loss_to(site), clock))

    def _refuse(self, now: float) -> None:
        """Raises `NotAllowed` when the other end has had time to read the list."""
        if self._ends_at is None:
            self._ends_at = now + READING
        if now >= self._ends_at:
            self._ends_at = None
            self._membership.check_accepted(self._site)

    def accept_answer(self, answer: bytes, now: float) -> bool:
        if not self._membership.accepts(self._site):
            return False
        found = decode_answer(answer)
        group, site = self._group, self._site
        self._accept_loss(found.origin, found.loss)
        if group.is_recovering(site, now):
            return False
        effects = group.accept_answer(site, found.clock, now)
        if effects is None:
            return False
        self._membership.connect()
        missing = group.miss_lost(site, now)
        status = ReportStatus(site, LinkState.CONNECTED, "")
        self._connected(site, [*missing, status, *effects])
        return True

    def _accept_loss(self, origin: str, loss: Loss) -> None:
        self._membership.check_log(self._site, origin)
        self._group.origins[self._site] = origin
        self._group.losses.accept(self._site, loss)
