"""A site's part in the handshake of its link to another site."""

from __future__ import annotations

from collections.abc import Callable

from zope.interface import implementer

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


@implementer(ILinkOwner)
class LinkOwner:
    """The owner of one link. It counts the other site as connected after its answer."""

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
        clock = self._group.make_offer(self._site, now)
        return encode_offer(Offer(self._terms, self._origin, clock))

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        found = decode_offer(offer)
        check_terms(self._terms, found.terms)
        clock = self._group.answer_offer(self._site, found.clock, now)
        if clock is None:
            return None
        self._group.origins[self._site] = found.origin
        return encode_answer(clock)

    def accept_answer(self, answer: bytes, now: float) -> bool:
        effects = self._group.accept_answer(self._site, decode_answer(answer), now)
        if effects is None:
            return False
        self._connected(self._site, effects)
        return True
