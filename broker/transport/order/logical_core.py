"""Logical time: Lamport stamps, and the clocks of connected sites only (RCM R34; L2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from zope.interface import implementer

from broker.errors import ProtocolError
from broker.transport.order.contract import IOrderCore
from broker.transport.order.effects import OVERDUE, OrderEffect, Packet, Place, Send
from broker.transport.order.instant import Instant
from broker.transport.order.negotiation import Negotiation
from broker.transport.order.packet import Clock, Message, MessageId, Stamp
from broker.transport.order.settings import OrderSettings
from broker.transport.order.stamped_core import StampedCore
from broker.transport.view import LinkState

#: All times are below it.
MOST_TIME = 2**63
#: A time further ahead of the own clock is an error.
MOST_AHEAD = 2**40


@implementer(IOrderCore)
class LogicalCore(StampedCore):
    """Delivers the lowest stamp when the clock of each connected site is beyond it.

    `clock_delay` after a stamp or clock has raised its own clock, a site sends it to each connected
    site that has a lower one of it. This ends, since only messages make new times. A site that did
    not get a message answers too, through the clocks of those that got it.

    A site that returns has answered with a clock that is not below any stamp that has arrived. So
    it holds back no earlier message, and its later messages are not late. The answer has a lead
    before the offer, to leave room for stamps that arrive until then (`Negotiation`). An answer is
    below reserved stamps: after a failed offer it waits until they have a lead.
    """

    def __init__(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> None:
        super().__init__(site, incarnation, settings)
        self._clock = floor
        self._highest = 0  # of the stamps that have arrived or were released
        # Of connected sites: their clocks, and this clock as they know it.
        self._clocks: dict[str, int] = {}
        self._announced: dict[str, int] = {}
        self._negotiation = Negotiation(site)
        self._announce_at: float | None = None
        # Last stamps of queued messages, with the times of their arrivals, the earliest first.
        self._waiting: deque[tuple[float, Stamp]] = deque()
        self._overdue_at: float | None = None

    @property
    def floor(self) -> int:
        return self._clock

    def offer_clock(self, site: str, at: Instant) -> int:
        self._negotiation.begin(site, at.now)
        return self._lowest_answer

    def answer_clock(self, site: str, offer: int, at: Instant) -> int | None:
        self._check_time(site, offer, at)
        negotiation = self._negotiation
        lead = negotiation.lead_of(site, self._least_lead)
        lowest = offer + lead // 8
        if lead and negotiation.goes_first(site, at.now):
            return None
        if self._public_clock < lowest:
            self._clock = max(self._clock, offer + lead)
            self._plan_announcement(at)
        if self._public_clock < (lowest if negotiation.count_answered(site) else offer):
            return None
        negotiation.record_answer(site)
        return self._public_clock

    def connect(self, site: str, answer: int, at: Instant) -> list[OrderEffect] | None:
        self._check_time(site, answer, at)
        if answer < self._lowest_answer:
            return None
        self._clock = max(self._clock, answer)
        self.connected |= {site}
        self._negotiation.connect(site)
        self._answers[site] = self._clocks[site] = answer
        self._announced[site] = 0
        return self._advance(at)

    def disconnect(self, site: str, state: LinkState, at: Instant) -> list[OrderEffect]:
        self._negotiation.disconnect(site)
        return super().disconnect(site, state, at)

    def place(self, id: MessageId, stamp: Stamp) -> Place | None:
        self._highest = max(self._highest, stamp.time)
        self._clock = max(self._clock, stamp.time)
        return super().place(id, stamp)

    def handle_timeout(self, at: Instant) -> list[OrderEffect]:
        effects = self._suspect_overdue_sites(at)
        if self._announce_at is None or at.now < self._announce_at:
            return effects
        self._announce_at = None
        sites = tuple(sorted(self._uninformed_sites()))
        if sites:
            self._announced.update(dict.fromkeys(sites, self._public_clock))
            effects.append(Send((Clock(self._public_clock),), sites))
        return effects

    def _timeouts(self) -> tuple[float | None, ...]:
        return self._announce_at, self._overdue_at

    # ----------------------------------------------------------------- of the hybrid

    @property
    def _least_lead(self) -> int:
        """The lead of the first answer before the offer."""
        # More than a group stamps in one round trip, and far less than `MOST_AHEAD`.
        return 1024

    @property
    def _lowest_answer(self) -> int:
        """The lowest answer with which a site is connected."""
        return self._highest

    def _check_time(self, site: str, time: int, at: Instant) -> None:
        if time > self._clock + MOST_AHEAD:
            raise ProtocolError(f"the time {time} of {site} is too far ahead of {self._clock}")

    def _next_time(self, count: int, at: Instant) -> int:
        first = self._clock + 1
        self._clock += count
        return first

    # ----------------------------------------------------------------- of the clocks

    def _add_own_messages(self, messages: Sequence[Message], at: Instant) -> Iterable[OrderEffect]:
        last = messages[-1].last_stamp
        assert last is not None
        time = last.time
        self._highest = max(self._highest, time)
        self._announced.update(dict.fromkeys(self.connected, time))
        return super()._add_own_messages(messages, at)

    def _advance(self, at: Instant) -> list[OrderEffect]:
        self._plan_announcement(at)
        effects = super()._advance(at)
        while self._waiting and self._history.is_late(self._waiting[0][1], 0):
            self._waiting.popleft()
        patience = self._settings.clock_patience
        self._overdue_at = self._waiting[0][0] + patience if self._waiting else None
        return effects + self._suspect_slow_sites(at) if self._is_full else effects

    def _enqueue(self, message: Message, at: Instant) -> None:
        super()._enqueue(message, at)
        last = message.last_stamp
        assert last is not None
        self._waiting.append((at.now, last))

    def _suspect_slow_sites(self, at: Instant) -> list[OrderEffect]:
        """Wait no longer for sites whose clocks do not come, although their packets may."""
        _, stamp = self._waiting[0]
        slow = sorted(site for site in self.connected if self._clocks[site] < stamp.time)
        effects: list[OrderEffect] = [self._suspect(site, OVERDUE) for site in slow]
        return effects + self._advance(at) if slow else effects

    def _suspect_overdue_sites(self, at: Instant) -> list[OrderEffect]:
        if self._overdue_at is None or at.now < self._overdue_at:
            return []
        effects = self._suspect_slow_sites(at)
        if self._overdue_at is not None and self._overdue_at <= at.now:
            # The message waits for an own commit.
            self._overdue_at = at.now + self._settings.clock_patience
        return effects

    @property
    def _public_clock(self) -> int:
        """The clock of this site as others know it: all later messages have higher stamps."""
        return self._below_reserved(self._clock)

    def _accept_packet(self, site: str, packet: Packet, at: Instant) -> Iterable[OrderEffect]:
        if not isinstance(packet, Clock):
            return super()._accept_packet(site, packet, at)
        self._check_time(site, packet.time, at)
        self._raise_clock(site, packet.time)
        return ()

    def _merge(self, site: str, time: int, at: Instant) -> None:
        self._highest = max(self._highest, time)
        self._raise_clock(site, time)

    def _raise_clock(self, site: str, time: int) -> None:
        self._clock = max(self._clock, time)
        if site in self.connected:
            self._clocks[site] = max(self._clocks[site], time)

    def _due_time(self, at: Instant) -> int:
        return min((self._clocks[site] for site in self.connected), default=MOST_TIME)

    def _uninformed_sites(self) -> set[str]:
        told = self._public_clock
        return {site for site in self.connected if self._announced[site] < told}

    def _plan_announcement(self, at: Instant) -> None:
        if self._announce_at is None and self._uninformed_sites():
            self._announce_at = at.now + self._settings.clock_delay
