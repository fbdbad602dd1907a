"""All compared variants at a site: their packets, and their exchanges of clocks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from broker.errors import BrokerError, ProtocolError
from broker.transport.effects import Failed
from broker.transport.order import Deliver, Instant, Move, OrderEffect, Send, Suspect
from plugins.rcm.comparison.outbox import Outbox
from plugins.rcm.comparison.packet import Answer, Offer, Released, Suspicion
from plugins.rcm.comparison.peer import Peer
from plugins.rcm.comparison.shadow import Shadow
from plugins.rcm.comparison.variant_record import Delivery, VariantRecord

#: Seconds until an offer that could not be answered is looked at again.
ANSWER_AGAIN: Final = 0.05
#: Seconds of a suspicion by a compared variant, as `liveness` of good measurements by default.
RETURN: Final = 5.0


class ShadowGroup:
    """A site is connected in a variant after an offer and its answer, which follow the link's.

    A site that a variant suspects is told so, and both ends make offers again after `RETURN`.
    """

    def __init__(
        self,
        incarnation: int,
        sites: tuple[str, ...],
        shadows: Sequence[Shadow],
        records: Mapping[str, VariantRecord],
        peers: Mapping[str, Peer],
        out: Outbox,
        fail: Callable[[str, BrokerError, Instant], None],
    ) -> None:
        """`fail` ends the part of a site in the comparison."""
        self.released = Released(0, 0)
        """Of this site."""
        self._incarnation = incarnation
        self._sites = sites
        self._shadows = {each.variant: each for each in shadows}
        self._records = records
        self._peers = peers
        self._out = out
        self._fail = fail
        self._answer_at: dict[tuple[str, str], float] = {}
        self._offer_at: dict[tuple[str, str], float] = {}
        """Times by variant and site."""

    # ----------------------------------------------------------------- messages

    def release(self, size: int, at: Instant) -> None:
        """Let all variants order a release of so many messages."""
        for shadow in self._shadows.values():
            self._apply(shadow, shadow.release(at), at, size)

    def receive(self, site: str, parts: Iterable[tuple[str, bytes]], at: Instant) -> None:
        """Raises `ProtocolError`."""
        for variant, data in parts:
            shadow = self._shadows.get(variant)
            if shadow is not None:
                self._apply(shadow, shadow.receive(site, data, at), at)

    # ----------------------------------------------------------------- links

    def connect(self, site: str, at: Instant) -> None:
        """Offer the clocks of all variants to a site that is connected from now on."""
        self._forget(site)
        self._peers[site].link(is_linked=True)
        self._send_offer(site, list(self._shadows), at)

    def disconnect(self, site: str, at: Instant) -> None:
        self._forget(site)
        self._peers[site].link(is_linked=False)
        for shadow in self._shadows.values():
            self._disconnect(shadow, site, at)

    def end(self, site: str, at: Instant) -> None:
        """End the part of a site, and tell it once."""
        self._forget(site)
        self._peers[site].offers.clear()
        for shadow in self._shadows.values():
            if site in shadow.core.connected:
                self._out.add(Suspicion(shadow.variant), [site])
                self._disconnect(shadow, site, at)

    def accept_offer(self, site: str, offer: Offer, at: Instant) -> None:
        """Answer offers, and make own ones where the site is not connected. Raises
        `ProtocolError`."""
        peer = self._peers[site]
        for variant, clock in offer.clocks:
            if variant in self._shadows:
                peer.unanswered[variant] = offer.exchange, clock
        unasked = [
            variant
            for variant in peer.unanswered
            if variant not in peer.offers and site not in self._shadows[variant].core.connected
        ]
        if unasked:
            # Before the answer: the site knows from it that this one takes part.
            self._send_offer(site, unasked, at)
        self._answer(peer, list(peer.unanswered), at)

    def accept_answer(self, site: str, answer: Answer, at: Instant) -> None:
        """Raises `ProtocolError`."""
        peer = self._peers[site]
        for variant, clock in answer.clocks:
            if peer.offers.get(variant) != answer.exchange:
                continue
            shadow = self._shadows[variant]
            effects = shadow.core.connect(site, clock, at)
            if effects is None:
                self._send_offer(site, [variant], at)
                continue
            del peer.offers[variant]
            self._apply(shadow, effects, at)
            self._change_view(shadow, at)

    def accept_suspicion(self, site: str, suspicion: Suspicion, at: Instant) -> None:
        shadow = self._shadows.get(suspicion.variant)
        if shadow is not None:
            self._disconnect(shadow, site, at)
            self._offer_at[suspicion.variant, site] = at.now + RETURN

    # ----------------------------------------------------------------- time

    def handle_timeout(self, at: Instant) -> None:
        for shadow in self._shadows.values():
            if shadow.due is not None and shadow.due <= at.now:
                self._apply(shadow, shadow.core.handle_timeout(at), at)
        for key in [key for key, time in self._answer_at.items() if time <= at.now]:
            del self._answer_at[key]
            variant, site = key
            try:
                self._answer(self._peers[site], [variant], at)
            except ProtocolError as error:
                self._fail(site, error, at)
        for key in [key for key, time in self._offer_at.items() if time <= at.now]:
            del self._offer_at[key]
            variant, site = key
            if site not in self._shadows[variant].core.connected:
                self._send_offer(site, [variant], at)

    def next_timeout(self) -> float | None:
        found = [each.due for each in self._shadows.values() if each.due is not None]
        return min((*found, *self._answer_at.values(), *self._offer_at.values()), default=None)

    # ----------------------------------------------------------------- within

    def _send_offer(self, site: str, variants: Sequence[str], at: Instant) -> None:
        peer = self._peers[site]
        if not peer.is_linked or peer.error:
            return
        exchange = peer.next_exchange()
        peer.offers.update(dict.fromkeys(variants, exchange))
        clocks = tuple((each, self._shadows[each].core.offer_clock(site, at)) for each in variants)
        compared = tuple(self._records)
        offer = Offer(*(self._incarnation, self._sites, compared, self.released, exchange, clocks))
        self._out.add(offer, [site])

    def _answer(self, peer: Peer, variants: Iterable[str], at: Instant) -> None:
        """Answer offers of a site, or look at them again later. Raises `ProtocolError`."""
        for variant in variants:
            if variant not in peer.unanswered:
                continue
            exchange, clock = peer.unanswered[variant]
            shadow = self._shadows[variant]
            answer = shadow.core.answer_clock(peer.site, clock, at)
            shadow.due = shadow.core.next_timeout()
            if answer is None:
                self._answer_at[variant, peer.site] = at.now + ANSWER_AGAIN
                continue
            del peer.unanswered[variant]
            self._out.add(Answer(exchange, self.released, ((variant, answer),)), [peer.site])

    def _disconnect(self, shadow: Shadow, site: str, at: Instant) -> None:
        self._apply(shadow, shadow.disconnect(site, at), at)
        self._change_view(shadow, at)

    def _apply(
        self, shadow: Shadow, effects: Iterable[OrderEffect], at: Instant, size: int = 1
    ) -> None:
        """Record deliveries, and send packets. Effects that follow come after all of them.

        `size` is the number of messages of an own release.
        """
        record = self._records[shadow.variant]
        waiting = deque(effects)
        deliveries: list[Delivery] = []

        def record_deliveries() -> None:
            if deliveries:
                record.deliver(deliveries, at.site_clock, at.now)
                deliveries.clear()

        while waiting:
            match waiting.popleft():
                case Deliver(message, stamp, late):
                    deliveries.append(Delivery(message.id, stamp, late is not None))
                case Send() as send:
                    self._send(shadow, send, record, size)
                case Suspect(site, _):
                    record_deliveries()
                    record.suspicions += 1
                    waiting += shadow.disconnect(site, at)
                    self._change_view(shadow, at)
                    self._out.add(Suspicion(shadow.variant), [site])
                    self._offer_at[shadow.variant, site] = at.now + RETURN
                case Move():
                    record_deliveries()
                    record.move(at.now)
                case Failed(error, site):
                    record_deliveries()
                    self._fail(str(site), error, at)
        record_deliveries()
        shadow.due = shadow.core.next_timeout()

    def _send(self, shadow: Shadow, send: Send, record: VariantRecord, size: int) -> None:
        variant = shadow.variant
        sites = [
            each.site
            for each in self._peers.values()
            if each.takes_part
            and variant in each.variants
            and (send.sites is None or each.site in send.sites)
        ]
        if sites:
            data, extra = shadow.encode(send, size)
            record.extra_bytes += extra * len(sites)
            self._out.add_part(variant, data, sites)

    def _change_view(self, shadow: Shadow, at: Instant) -> None:
        self._records[shadow.variant].change_view(shadow.core.connected, at.now)

    def _forget(self, site: str) -> None:
        for times in (self._answer_at, self._offer_at):
            for key in [key for key in times if key[1] == site]:
                del times[key]
