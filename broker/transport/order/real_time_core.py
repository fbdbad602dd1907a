"""Real time: stamps of the site clock, delivered when they are `delta` old (RCM R36; L4)."""

from __future__ import annotations

from zope.interface import implementer

from broker.transport.order.contract import IOrderCore
from broker.transport.order.effects import OrderEffect, Place
from broker.transport.order.instant import MICROSECONDS, Instant
from broker.transport.order.packet import MessageId, Stamp
from broker.transport.order.settings import OrderSettings
from broker.transport.order.stamped_core import StampedCore


@implementer(IOrderCore)
class RealTimeCore(StampedCore):
    """Delivers the lowest stamp `delta` after it, by the clock of the receiving site.

    No site waits for another. A message that needs more than `delta` and the difference of the
    clocks may be late: then its sender is suspected.
    """

    def __init__(
        self, site: str, incarnation: int, settings: OrderSettings, floor: int = 0
    ) -> None:
        super().__init__(site, incarnation, settings)
        self._last = floor
        self._delta = round(settings.delta * MICROSECONDS)
        self._due: float | None = None

    @property
    def floor(self) -> int:
        return self._last

    def offer_clock(self, site: str, at: Instant) -> int:
        return at.site_clock

    def answer_clock(self, site: str, offer: int, at: Instant) -> int | None:
        self._check_time(site, offer, at)
        return self._below_reserved(max(self._last, at.site_clock))

    def connect(self, site: str, answer: int, at: Instant) -> list[OrderEffect] | None:
        self._check_time(site, answer, at)
        self.connected |= {site}
        self._answers[site] = answer
        return []

    def place(self, id: MessageId, stamp: Stamp) -> Place | None:
        if id.site == self.site:
            self._last = max(self._last, stamp.time)
        return super().place(id, stamp)

    def handle_timeout(self, at: Instant) -> list[OrderEffect]:
        return self._advance(at)

    def _timeouts(self) -> tuple[float | None]:
        return (self._due,)

    def _next_time(self, count: int, at: Instant) -> int:
        first = max(self._last + 1, at.site_clock)
        self._last = first + count - 1
        return first

    def _merge(self, site: str, time: int, at: Instant) -> None:
        pass

    def _due_time(self, at: Instant) -> int:
        return at.site_clock - self._delta

    def _advance(self, at: Instant) -> list[OrderEffect]:
        effects = super()._advance(at)
        end = self._lowest_end
        self._due = None if end is None else at.until(end + self._delta)
        return effects
