"""Requests for numbers, and delivery behind other sequencers, for the sequencer variant (L3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from broker.transport.order.effects import OVERDUE, OrderEffect, Send, Suspect
from broker.transport.order.instant import Instant
from broker.transport.order.packet import MessageId, Stamp
from broker.transport.order.sequencer.delivery import sort_headers
from broker.transport.order.sequencer.left_epochs import LeftEpochs
from broker.transport.order.sequencer.numbered_core import NumberedCore
from broker.transport.order.sequencer.packet import (
    MOST_HEADERS,
    NUMBER_BITS,
    Epoch,
    Header,
    Known,
    Places,
    Raised,
    Request,
)
from broker.transport.order.sequencer.place_table import sort_places
from broker.transport.order.settings import OrderSettings


class FollowerCore(NumberedCore):
    """Follows the lowest connected site, its leader.

    It requests numbers of messages that wait for too long. Sites between the leader and this one
    may become its leader: it delivers nothing of an epoch before they have left lower ones.
    """

    def __init__(self, site: str, incarnation: int, settings: OrderSettings, floor: int) -> None:
        super().__init__(site, incarnation, settings, floor)
        self._leader = site  # the lowest connected site
        self._promised = Epoch(floor, "")
        # The epoch of this member, and the number after the last known one.
        self._epoch: Epoch | None = None
        self._next = 0
        # Messages that other sites wait for, and that this sequencer must number.
        self._requested: set[Header] = set()
        self._request_at: float | None = None
        # The leader has this long to answer, if this site is in no epoch.
        self._followed_since = 0.0
        self._depth = 0  # followers between this site and a sequencer, which may wait as long
        self._give_up_at: float | None = None
        self._left_epochs = LeftEpochs()
        self._entered = 0  # highest counter of numbers that came

    # ----------------------------------------------------------------- of sites between

    @property
    def _sites_between(self) -> list[str]:
        return sorted(each for each in self.connected if self._leader < each < self.site)

    def _may_deliver(self, stamp: Stamp) -> bool:
        return self._left_epochs.have_left(self._sites_between, stamp.time >> NUMBER_BITS)

    def _ask_sites_between(self, at: Instant) -> list[OrderEffect]:
        counter = max(self._entered, self._reached)
        asked = self._left_epochs.ask_sites(self._sites_between, counter, at.now)
        return [Send((Raised(counter),), asked)] if asked else []

    def _suspect_sites_between(self, at: Instant) -> list[OrderEffect]:
        """Suspect sites that do not answer."""
        settings = self._settings
        since = self._delivery.waiting_since()
        has_waited = since is not None and since + settings.entry_patience <= at.now
        patience = 2 * settings.patience if has_waited else settings.entry_patience
        overdue = self._left_epochs.take_overdue(at.now, patience)
        return [Suspect(site, OVERDUE) for site in overdue]

    @property
    def _answer_due(self) -> float | None:
        """Time at which the next site that does not answer is suspected.

        A message may have waited for another site before. It does not wait as long again.
        """
        asked, since = self._left_epochs.waits_since, self._delivery.waiting_since()
        if asked is None:
            return None
        settings = self._settings
        end = asked + settings.entry_patience
        if since is None:
            return end
        return min(end, max(since + settings.entry_patience, asked + 2 * settings.patience))

    # ----------------------------------------------------------------- of requests

    def find_stamp(self, id: MessageId, stamp: Stamp | None, at: Instant) -> Stamp | None:
        found = super().find_stamp(id, stamp, at)
        self._plan_requests(at)
        return found

    def _plan_requests(self, at: Instant) -> None:
        settings, is_follower = self._settings, self._leader != self.site
        if not is_follower or not self._delivery.unnumbered:
            self._request_at = None
        elif self._request_at is None:
            self._request_at = at.now + settings.request_after
        self._give_up_at = None
        if is_follower and self._is_overdue:
            self._give_up_at = max(at.now, self._followed_since + settings.request_after)
            return
        since = self._delivery.waiting_since() if is_follower and self._epoch is None else None
        if since is not None:
            patience = 2 * settings.patience
            grace = patience * (self._depth + 1) if self._depth else 0.0
            end = since + settings.entry_patience + grace
            self._give_up_at = max(end, self._followed_since + patience)

    def _request_numbers(self, at: Instant) -> list[OrderEffect]:
        if self._request_at is None or at.now < self._request_at:
            return []
        self._request_at = None
        before = at.now - self._settings.request_after
        due = [each for each, since in self._delivery.unnumbered.values() if since <= before]
        return [Send((Request(sort_headers(due)[:MOST_HEADERS]),), (self._leader,))] if due else []

    def _answer_request(self, site: str, headers: Sequence[Header]) -> Iterable[OrderEffect]:
        headers = self._drop_unsent(site, headers)
        if site not in self.connected:
            return ()
        delivery = self._delivery
        others = [each for each in headers if delivery.is_without_place(each.id)]
        if self._leader == self.site:
            # The site gets the places with the next epoch: one by one they would overtake others.
            # Beyond the bound, the site requests them again.
            if len(self._requested) < MOST_HEADERS:
                self._requested.update(others)
            return ()
        known = [
            (place, each)
            for each in headers
            if (place := delivery.places.place_of(each.id)) is not None
        ]
        effects = [Send((Known(sort_places(known), self._depth),), (site,))]
        if strange := [each for each in others if each.id not in delivery.unnumbered]:
            effects.append(Send((Request(sort_headers(strange)),), (self._leader,)))
        return effects

    def _deliver_answer(self, places: Places, depth: int) -> list[OrderEffect]:
        """Deliver requested messages. Those that may not be delivered yet are requested again."""
        self._depth = depth + 1
        self._entered = max(self._entered, *(stamp.time >> NUMBER_BITS for stamp, _ in places), 0)
        return self._deliver_known(tuple(each for each in places if self._may_deliver(each[0])))
