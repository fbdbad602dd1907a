"""Faulty variants, each with one rule left out, and the property that each one breaks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappush
from typing import Any

import attrs
from zope.interface import implementer

from broker.testing.order.channel import Channel, Data
from broker.testing.order.link import Link
from broker.testing.order.violation import Property
from broker.transport.order import (
    VARIANTS,
    Instant,
    IOrderVariant,
    IPacketCodec,
    Message,
    MessageId,
    OrderEffect,
    Place,
    Stamp,
    Suspect,
)
from broker.transport.order.base_core import Origin
from broker.transport.order.history import History
from broker.transport.order.logical_core import MOST_TIME, LogicalCore
from broker.transport.order.real_time_core import RealTimeCore
from broker.transport.order.sequencer import SequencerCore
from broker.transport.view import LinkState


class DeliversOnArrival(LogicalCore):
    def _due_time(self, at: Instant) -> int:
        return MOST_TIME


class HasNoTieBreak(LogicalCore):
    def _enqueue(self, message: Message, at: Instant) -> None:
        assert message.stamp is not None
        heappush(self._queue, (Stamp(message.stamp.time, ""), self._arrivals, message))
        self._arrivals += 1


class IgnoresIncarnations(LogicalCore):
    def _origin(self, id: MessageId) -> Origin:
        origin = self._origins.setdefault(id.site, Origin(id.incarnation))
        origin.incarnation = max(origin.incarnation, id.incarnation)
        return origin


class Patient(LogicalCore):
    """It suspects no site whose clock does not come."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._settings = attrs.evolve(self._settings, clock_patience=1e9)


class AnswersWithNoClock(Patient):
    def _plan_announcement(self, at: Instant) -> None:
        pass


class WaitsForSuspectedSites(Patient):
    def disconnect(self, site: str, state: LinkState, at: Instant) -> list[OrderEffect]:
        return [] if state is LinkState.SUSPECTED else super().disconnect(site, state, at)


class AcceptsAnyAnswer(LogicalCore):
    def connect(self, site: str, answer: int, at: Instant) -> list[OrderEffect] | None:
        self._highest = 0
        return super().connect(site, answer, at)


class TellsReservedClock(LogicalCore):
    @property
    def _public_clock(self) -> int:
        return self._clock


class AnswersWithReservedClock(LogicalCore):
    def answer_clock(self, site: str, offer: int, at: Instant) -> int | None:
        super().answer_clock(site, offer, at)
        return self._clock


class DeliversBeyondReserved(LogicalCore):
    @property
    def _lowest_stamp(self) -> Stamp | None:
        return self._queue[0][0] if self._queue else None


class DoesNotWaitForClock(Link):
    waits_for_clock = False


class TakesOverInOldEpoch(SequencerCore):
    def _take_over(self, at: Instant) -> list[OrderEffect]:
        if self._takeover is None and self._promised.counter:
            self._counter = self._promised.counter - 1
        return super()._take_over(at)


class AdoptsNoPlaces(SequencerCore):
    def _adopt_places(self, *arguments: object) -> list[OrderEffect]:
        return []


class MovesNothing(SequencerCore):
    def _move(self, *arguments: object) -> list[OrderEffect]:
        return []


class DetectsNoDuplicates(LogicalCore):
    def _take_new(self, site: str, message: Message) -> Message | None:
        self._origins.pop(site, None)
        return super()._take_new(site, message)


class ForgettingChannel(Channel):
    def accept_data(self, data: Data) -> bool:
        super().accept_data(data)
        return True


class ResendingLink(Link):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.channel = ForgettingChannel(arguments[2])

    def _send_unsent(self) -> None:
        """Begin with all packets that are kept."""
        self.channel._next = min(self.channel._next, self.channel._first)
        super()._send_unsent()


class ShiftedHistory(History):
    def add(self, stamp: Stamp, id: MessageId, count: int = 1) -> Place | None:
        place = super().add(stamp, id, count)
        return place and Place(place.after, place.before)


class TellsWrongNeighbours(LogicalCore):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._history = ShiftedHistory(1000)


class MarksNothingLate(RealTimeCore):
    def _deliver(self, message: Message, stamp: Stamp) -> Any:
        return attrs.evolve(super()._deliver(message, stamp), late=None)


class SuspectsNobody(RealTimeCore):
    def _accept_packet(self, site: str, packet: object, at: Instant) -> Iterable[OrderEffect]:
        effects = super()._accept_packet(site, packet, at)
        return [each for each in effects if not isinstance(each, Suspect)]


@implementer(IOrderVariant)
@attrs.frozen
class Mutant:
    core: Any
    #: The property that is found broken.
    property: Property
    link: type[Link] = Link
    name: str = "logical"

    def create_core(self, *arguments: Any) -> Any:
        return self.core(*arguments)

    def create_codec(self, sites: Sequence[str]) -> IPacketCodec:
        return VARIANTS[self.name].create_codec(sites)


MUTANTS = (
    # Its late messages make sites suspected.
    Mutant(DeliversOnArrival, Property.AWARENESS),
    Mutant(HasNoTieBreak, Property.GLOBAL_ORDER),
    Mutant(IgnoresIncarnations, Property.RELIABILITY),
    Mutant(AnswersWithNoClock, Property.ROBUSTNESS),
    Mutant(WaitsForSuspectedSites, Property.ROBUSTNESS),
    Mutant(AcceptsAnyAnswer, Property.AWARENESS, DoesNotWaitForClock),
    # Its stamps are reported as late.
    Mutant(TellsReservedClock, Property.AWARENESS),
    # Sites connect although a stamp below the answer is reserved.
    Mutant(AnswersWithReservedClock, Property.GLOBAL_ORDER),
    Mutant(DeliversBeyondReserved, Property.GLOBAL_ORDER),
    Mutant(TakesOverInOldEpoch, Property.GLOBAL_ORDER, name="sequencer"),
    Mutant(AdoptsNoPlaces, Property.ROBUSTNESS, name="sequencer"),
    Mutant(MovesNothing, Property.GLOBAL_ORDER, name="sequencer"),
    Mutant(DetectsNoDuplicates, Property.RELIABILITY, ResendingLink),
    Mutant(TellsWrongNeighbours, Property.GLOBAL_ORDER),
    Mutant(MarksNothingLate, Property.GLOBAL_ORDER, name="real-time"),
    Mutant(SuspectsNobody, Property.GLOBAL_ORDER, name="real-time"),
)
