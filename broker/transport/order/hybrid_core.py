"""Hybrid of logical and real time: hybrid logical clocks (RCM R36; L5)."""

from __future__ import annotations

from zope.interface import implementer

from broker.transport.order.contract import IOrderCore
from broker.transport.order.effects import OrderEffect
from broker.transport.order.instant import MICROSECONDS, Instant
from broker.transport.order.logical_core import LogicalCore
from broker.transport.order.settings import OrderSettings
from broker.transport.order.stamped_core import StampedCore


@implementer(IOrderCore)
class HybridCore(LogicalCore):
    """Delivers the lowest stamp when the condition of logical time or of real time holds.

    A stamp is the site clock, or above the highest time that has arrived. Clock answers contain
    that time only: with the site clock, each answer would cause another one.

    A lead of stamps would delay the condition of real time. Instead the condition of logical time
    holds for nothing until an offer is answered, for `NEGOTIATION` at most. So the site delivers
    nothing that is not older than `delta`, and the site clock in the answer is high enough.
    """

    def __init__(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> None:
        super().__init__(site, incarnation, settings, floor)
        self._delta = round(settings.delta * MICROSECONDS)
        self._due: float | None = None

    def answer_clock(self, site: str, offer: int, at: Instant) -> int | None:
        self._clock = max(self._clock, at.site_clock)
        return super().answer_clock(site, offer, at)

    def handle_timeout(self, at: Instant) -> list[OrderEffect]:
        return super().handle_timeout(at) + self._advance(at)

    def _timeouts(self) -> tuple[float | None, ...]:
        return *super()._timeouts(), self._due

    @property
    def _least_lead(self) -> int:
        return 0

    @property
    def _lowest_answer(self) -> int:
        # Nothing is held back for longer than `delta`.
        return self._history.highest

    def _check_time(self, site: str, time: int, at: Instant) -> None:
        StampedCore._check_time(self, site, time, at)

    def _next_time(self, count: int, at: Instant) -> int:
        first = max(self._clock + 1, at.site_clock)
        self._clock = first + count - 1
        return first

    def _due_time(self, at: Instant) -> int:
        old = at.site_clock - self._delta
        if self._negotiation.has_offers and at.now < self._negotiation.end:
            return old
        return max(old, super()._due_time(at))

    def _advance(self, at: Instant) -> list[OrderEffect]:
        effects = super()._advance(at)
        end = self._lowest_end
        self._due = None
        if end is not None:
            self._due = at.until(end + self._delta)
            if at.now < self._negotiation.end:
                self._due = min(self._due, self._negotiation.end)
        return effects
