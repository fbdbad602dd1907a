"""Frames and routed messages as they come to, begin at, and pass through a node: a sans-I/O core.

What costs time is left to who drives it: matching what enters a unit, and reading pages of the log.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.flows import arrivals
from broker.cluster.flows.arrivals import Arrivals, Arrived, Ask, Take
from broker.cluster.flows.departures import Departing, Departures
from broker.cluster.flows.forwarding import divide, parts
from broker.cluster.flows.frame import MAX_HOPS, Carried, Frame, Range
from broker.cluster.flows.messages import AskDtd, Kept, Resume, Routed, TellDtd
from broker.cluster.knowledge import Knowledge
from broker.errors import ProtocolError
from broker.event.place import Mark

#: Seconds after which one who reads pages, and has asked for none, is taken not to read any more.
READS_ON = 10.0
#: Origins whose way into the units here is remembered; of another one it begins anew.
MOST_ENTERING = 4_096


@attrs.frozen
class Pass:
    """Send a frame to a neighbour."""

    neighbour: str
    frame: Frame


@attrs.frozen
class Say:
    """Send a routed message to a neighbour."""

    neighbour: str
    message: Routed


@attrs.frozen
class Enter:
    """Match these events against what is inside the unit, and call `entered`."""

    arrived: Arrived


@attrs.frozen
class Serve:
    """Read a page of the own log for this message, and call `served`."""

    resume: Resume


@attrs.frozen
class Told:
    """A routed message for this node."""

    message: Kept | AskDtd | TellDtd


TrafficEffect: TypeAlias = Pass | Say | Take | Enter | Serve | Told


@attrs.define
class TrafficCounts:
    """Since the start."""

    begun: int = 0
    """Frames of this node's own events."""
    transit: int = 0
    """Frames of others that were passed on."""
    stuck: int = 0
    """Destinations of frames, and messages, to which there was no way."""
    served: int = 0
    """Pages of the log that others asked for."""


class Traffic:
    """One node's. `covered` says how far its log has an origin."""

    def __init__(
        self,
        knowledge: Knowledge,
        origin: str,
        newest: Callable[[], Mark],
        covered: Callable[[str], Mark | None],
        *,
        compress: bool = False,
    ) -> None:
        """`newest` is the place of the newest own event, durable or not. With `compress` bodies
        that begin here are."""
        self._knowledge = knowledge
        self._own = knowledge.address
        self._newest = newest
        self._compress = compress
        self._departures = Departures(origin, self._own, newest())
        self._entering: OrderedDict[str, Departures] = OrderedDict()
        self._readers: dict[Address, float] = {}
        self.arrivals = Arrivals(covered)
        self.counts = TrafficCounts()

    @property
    def denied(self) -> int:
        """Events that were wanted where no way is cleared for them."""
        return self._departures.denied + sum(each.denied for each in self._entering.values())

    # ------------------------------------------------------------------ this node's own events

    def began(
        self,
        after: Mark,
        upto: Mark,
        events: Sequence[Departing],
        acknowledge: Collection[Address] = (),
    ) -> list[TrafficEffect]:
        """Own events have become durable: all those of (after, upto], with who wants them."""
        frame = self._departures.depart(after, upto, events, self._cleared, acknowledge)
        return [] if frame is None else self._begin(frame)

    def progress(self) -> list[TrafficEffect]:
        """Tell everybody how far own events have got: to be called each second."""
        effects: list[TrafficEffect] = []
        for each in (self._departures, *self._entering.values()):
            frame = each.progress()
            if frame is not None:
                effects += self._begin(frame)
        return effects

    def map_moved(self, now: float) -> None:
        """Who is there may be others now."""
        self._departures.serve(self._knowledge.destinations(), self._newest())
        self.arrivals.ask_now(now)

    def wants_began(self, destination: Address) -> None:
        """A destination of which nothing was known wants something."""
        self._departures.begin_again(destination, self._newest())

    # ------------------------------------------------------------------ what comes

    def frame_came(self, frame: Frame, now: float) -> list[TrafficEffect]:
        """A neighbour sent this."""
        division = divide(frame, self._own, self._knowledge.next_hop)
        self.counts.stuck += division.stuck
        effects: list[TrafficEffect] = []
        for index in division.here:
            arrived = Arrived(frame.ranges[index], frame, index)
            effects += self._arrivals(self.arrivals.arrive(arrived, now))
        effects += [Enter(Arrived(frame.ranges[i], frame, i)) for i in division.entering]
        if division.onward:
            self.counts.transit += 1
            onward = parts(frame, division.onward)
            effects += [Pass(hop, part) for hop, part in onward.items()]
        return effects

    def entered(
        self, arrived: Arrived, events: Sequence[Departing], now: float
    ) -> list[TrafficEffect]:
        """What entered a unit here was matched: on to who is inside, this node among them."""
        frame, told = arrived.frame, arrived.range
        departures = self._entering.pop(frame.origin, None)
        if departures is None:
            departures = Departures(frame.origin, frame.home, told.after)
            while len(self._entering) >= MOST_ENTERING:
                self._entering.popitem(last=False)
        self._entering[frame.origin] = departures
        departures.serve(self._knowledge.inside(told.destination.unit), told.after)
        onward = departures.depart(told.after, told.upto, events, self._cleared)
        return [] if onward is None else self.frame_came(onward, now)

    def message_came(self, message: Routed, now: float) -> list[TrafficEffect]:
        """A routed message, of a neighbour or of this node itself."""
        if message.target != self._own:
            return self._say(message)
        if isinstance(message, Resume):
            if message.origin != self._departures.origin:
                raise ProtocolError("asked for the events of an origin that is not here")
            self._readers[message.source] = now + READS_ON
            self._departures.fall_behind(message.source)
            self.counts.served += 1
            return [Serve(message)]
        assert isinstance(message, Kept | AskDtd | TellDtd)
        return [Told(message)]

    def served(
        self, resume: Resume, page: Range, carried: Sequence[Carried], rank: int, now: float
    ) -> list[TrafficEffect]:
        """A page was read: everything that its reader wants of the range."""
        runs = [(len(carried), (0,))] if carried else []
        done = self._departures.catch_up(resume.source, page.upto)
        page = page._replace(more=not done)
        return self._begin(self._departures.frame([page], carried, runs, rank))

    # ------------------------------------------------------------------ time

    def log_settled(self, origin: str, now: float) -> list[TrafficEffect]:
        """Events of an origin have become durable here."""
        return self._arrivals(self.arrivals.settled(origin, now))

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        times = [self.arrivals.next_timeout(), *self._readers.values()]
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> list[TrafficEffect]:
        """Ask for what is missing; forget who reads no more."""
        for reader, until in list(self._readers.items()):
            if until <= now:
                del self._readers[reader]
                self._departures.give_up(reader)
        return self._arrivals(self.arrivals.handle_timeout(now))

    # ------------------------------------------------------------------ inside

    def _cleared(self, destination: Address, rank: int) -> bool:
        if destination == self._own:
            return True
        return self._knowledge.next_hop(destination, rank) is not None

    def _begin(self, frame: Frame) -> list[TrafficEffect]:
        self.counts.begun += 1
        division = divide(frame, self._own, self._knowledge.next_hop)
        self.counts.stuck += division.stuck
        onward = parts(frame, division.onward)
        if self._compress:
            # Those that want all the same share one body.
            bodies: dict[int, Frame] = {}
            for hop, part in onward.items():
                made = bodies.setdefault(id(part.body), part.compressed())
                onward[hop] = attrs.evolve(part, encoding=made.encoding, body=made.body)
        return [Pass(hop, part) for hop, part in onward.items()]

    def _arrivals(self, effects: Sequence[arrivals.Effect]) -> list[TrafficEffect]:
        done: list[TrafficEffect] = []
        for effect in effects:
            if isinstance(effect, Ask):
                done += self._say(
                    Resume(effect.home, self._own, MAX_HOPS, effect.origin, effect.after)
                )
            else:
                done.append(effect)
        return done

    def _say(self, message: Routed) -> list[TrafficEffect]:
        hop = self._knowledge.next_hop(message.target, 0) if message.hops else None
        if hop is None:
            self.counts.stuck += 1
            return []
        return [Say(hop, attrs.evolve(message, hops=message.hops - 1))]
