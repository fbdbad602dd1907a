"""A site's part in the handshake of its link to another site."""

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


@implementer(ILinkOwner)
class LinkOwner:
    """The owner of one link. It counts the other site as connected after its answer.

    Before that, the node has got the events that links have lost (`plugins.rcm.losses`).
    """

    def __init__(
        self,
        group: Group,
        site: str,
        terms: Terms,
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
        self._origin = origin
        self._connected = connected

    def make_offer(self, now: float) -> bytes:
        group, site = self._group, self._site
        clock = None if group.is_recovering(site, now) else group.make_offer(site, now)
        return encode_offer(Offer(self._terms, self._origin, group.losses.loss_to(site), clock))

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        found = decode_offer(offer)
        check_terms(self._terms, found.terms)
        group, site = self._group, self._site
        self._accept_loss(found.origin, found.loss)
        if found.clock is None or group.is_recovering(site, now):
            return None
        clock = group.answer_offer(site, found.clock, now)
        if clock is None:
            return None
        return encode_answer(Answer(self._origin, group.losses.loss_to(site), clock))

    def accept_answer(self, answer: bytes, now: float) -> bool:
        found = decode_answer(answer)
        group, site = self._group, self._site
        self._accept_loss(found.origin, found.loss)
        if group.is_recovering(site, now):
            return False
        effects = group.accept_answer(site, found.clock, now)
        if effects is None:
            return False
        missing = group.miss_lost(site, now)
        status = ReportStatus(site, LinkState.CONNECTED, "")
        self._connected(site, [*missing, status, *effects])
        return True

    def _accept_loss(self, origin: str, loss: Loss) -> None:
        self._group.origins[self._site] = origin
        self._group.losses.accept(self._site, loss)
