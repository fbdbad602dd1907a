"""Frames and routed messages as they come to, begin at, and pass through a node: a sans-I/O core.

What costs time is left to who drives it: matching what enters a unit, and reading pages of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import attrs

from broker.cluster.address import Address
from broker.cluster.network_state import Knowledge
from broker.cluster.traffic import received_range as arrivals
from broker.cluster.traffic.effects import (
    Cover,
    Enter,
    Pass,
    Say,
    Serve,
    Told,
    TrafficCounts,
    TrafficEffect,
    TrafficFigures,
)
from broker.cluster.traffic.forwarding import Division, divide, parts
from broker.cluster.traffic.frame import MAX_HOPS, Carried, Frame, Range
from broker.cluster.traffic.frame_merge import merge
from broker.cluster.traffic.ingress import Entering
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.messages import Lost, Resume, Routed
from broker.cluster.traffic.page_readers import Readers
from broker.cluster.traffic.received_range import Arrived, Ask
from broker.cluster.traffic.receiver import Arrivals
from broker.cluster.traffic.sender import Departing, Departures
from broker.event.place import Mark, NamedHistory

__all__ = [
    "Cover",
    "Enter",
    "Pass",
    "Say",
    "Serve",
    "Told",
    "Traffic",
    "TrafficCounts",
    "TrafficEffect",
    "TrafficFigures",
]

#: Seconds for which nothing is said of an origin that this node is asked for and does not have: its
#: disk may come back, or somebody who keeps copies may say so.
SILENT_ON_LOST = 30.0


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
        patience: float = float("inf"),
        begins: Callable[[str, Mark], Mark] = lambda _, mark: mark,
        group: Callable[[int], Collection[str]] = lambda _: (),
        history: Callable[[], NamedHistory | None] = lambda: None,
        histories: KnownHistories | None = None,
    ) -> None:
        """`newest` is the place of the newest own event, durable or not. With `compress` bodies
        that begin here are. `patience`, `begins` and `histories` are those of `Arrivals`. `group`
        has the neighbours that can be reached together, with events of a security level's rank.
        `history` is the one in which this node logs."""
        self._knowledge = knowledge
        self._own = knowledge.address
        self._newest = newest
        self._compress = compress
        self._history = history
        self._group = group
        self._departures = Departures(origin, self._own, newest())
        self._entering = Entering(knowledge.inside)
        self._readers = Readers()
        self._began: float | None = None
        self._incarnations: dict[str, int] = {}
        self._cuts: dict[str, Mark] = {}
        self._newest_cuts: dict[str, Mark] = {}
        self.arrivals = Arrivals(covered, patience, begins, histories)
        self.counts = TrafficCounts()

    @property
    def denied(self) -> int:
        """Events that were wanted where no way is cleared for them."""
        entering = sum(each.denied for each in self._entering)
        return self._departures.denied + entering + self.counts.denied

    def figures(self) -> TrafficFigures:
        """How much is remembered of what goes where."""
        entering = [len(each.destinations) for each in self._entering]
        return TrafficFigures(
            ways=len(self._departures.destinations) + sum(entering),
            entering=len(self._entering),
            readers=len(self._readers),
            waiting=self.arrivals.waiting,
        )

    # ------------------------------------------------------------------ this node's own events

    def began(
        self,
        after: Mark,
        upto: Mark,
        events: Sequence[Departing],
    ) -> list[TrafficEffect]:
        """Own events have become durable: all those of (after, upto], with who wants them."""
        frame = self._departures.depart(after, upto, events, self._cleared)
        return [] if frame is None else self._begin(frame)

    def progress(self, now: float) -> list[TrafficEffect]:
        """Tell everybody how far own events have got: to be called each second."""
        effects: list[TrafficEffect] = []
        own = self._departures.progress()
        if own is not None:
            effects += self._begin(own)
        for each in self._entering:
            frame = each.progress()
            if frame is not None:
                # This node may be one of those inside.
                effects += self._divided(frame, False, now)
        return effects

    def map_moved(self, now: float) -> None:
        """Who is there may be others now, or the same anew."""
        if self._began is None:
            self._began = now
        anew = self._restarted()
        self._departures.serve(self._knowledge.destinations(), self._newest(), anew)
        self._entering.map_moved(anew)
        self.arrivals.ask_now(now)

    def close(self) -> None:
        """What this node wants does not flow yet: nothing is taken before `open`."""
        self.arrivals.close()

    def flowing(self, cuts: Mapping[str, Mark], now: float) -> list[TrafficEffect]:
        """Something that this node wants flows: all of it comes that lies behind the cuts."""
        if cuts == self._newest_cuts:
            # All that came to flow together has the same.
            return []
        self._newest_cuts = dict(cuts)
        own = self._departures.origin
        for origin, cut in cuts.items():
            self._cuts[origin] = max(cut, self._cuts.get(origin, cut))
        return [
            Cover(origin, cut)
            for origin, cut in cuts.items()
            if origin != own and self.arrivals.begin(origin, cut)
        ]

    def cuts_ahead(self) -> dict[str, Mark]:
        """The cuts that the node has not reached. What is wanted from now on, and covered by what
        flows, flows behind these; of other origins from where the log stands."""
        for origin in list(self._cuts):
            stands_at = self.arrivals.stands_at(origin)
            if stands_at is not None and stands_at >= self._cuts[origin]:
                del self._cuts[origin]
        return dict(self._cuts)

    def open(self, now: float) -> list[TrafficEffect]:
        """All flows that this node wanted when it was closed."""
        return self._arrivals(self.arrivals.open(now))

    def wants_began(self, destination: Address) -> None:
        """A destination of which nothing was known wants something."""
        self._departures.begin_again(destination, self._newest())

    # ------------------------------------------------------------------ what comes

    def frame_came(self, frame: Frame, now: float) -> list[TrafficEffect]:
        """A neighbour sent this."""
        return self._divided(frame, self._entering.holds(frame.origin), now)

    def _divided(self, frame: Frame, follows: bool, now: float) -> list[TrafficEffect]:
        division = self._divide(frame)
        effects: list[TrafficEffect] = []
        # Of its own events a node is told nothing by others.
        for index in division.here if frame.origin != self._departures.origin else ():
            arrived = Arrived(frame.ranges[index], frame, index)
            effects += self._arrivals(self.arrivals.arrive(arrived, now))
        onward: Mapping[str, Frame] = {}
        if division.onward:
            self.counts.transit += 1
            onward = parts(frame, division.onward, self._group(frame.rank))
        for index in division.entering:
            arrived = Arrived(frame.ranges[index], frame, index)
            self._entering.departures(arrived)
            effects.append(self._enter(Enter(frame, arrived, onward)))
            onward = {}
        if onward and follows:
            effects.append(self._enter(Enter(frame, None, onward)))
        else:
            effects += [Pass(hop, part) for hop, part in onward.items()]
        return effects

    def _enter(self, enter: Enter) -> Enter:
        if enter.onward:
            self._entering.hold(enter)
        return enter

    def group_frame_came(self, frame: Frame, now: float) -> list[TrafficEffect]:
        """A member of the group sent this to all: what is for this node is taken."""
        effects: list[TrafficEffect] = []
        for index, told in enumerate(frame.ranges):
            if told.destination == self._own and frame.origin != self._departures.origin:
                arrived = Arrived(told, frame, index)
                effects += self._arrivals(self.arrivals.arrive(arrived, now))
        return effects

    def entered(self, enter: Enter, events: Sequence[Departing], now: float) -> list[TrafficEffect]:
        """What entered a unit here was matched: on to who is inside, this node among them, and
        beside it what goes on."""
        assert enter.arrived is not None
        told = enter.arrived.range
        inside = self._entering.departures(enter.arrived).depart(
            told.after, told.upto, events, self._cleared
        )
        effects = [] if inside is None else self._divided(inside, False, now)
        onward = dict(enter.onward) if self._entering.let_pass(enter) else {}
        together: list[TrafficEffect] = []
        for effect in effects:
            if isinstance(effect, Pass) and effect.neighbour in onward:
                merged = merge(onward[effect.neighbour], effect.frame)
                if merged is not None:
                    del onward[effect.neighbour]
                    effect = Pass(effect.neighbour, merged)
            together.append(effect)
        return [*(Pass(hop, part) for hop, part in onward.items()), *together]

    def late(self, enter: Enter) -> list[TrafficEffect]:
        """What goes on beside what entered is not to wait any longer."""
        if not self._entering.let_pass(enter):
            return []
        return [Pass(hop, part) for hop, part in enter.onward.items()]

    def message_came(self, message: Routed, now: float) -> list[TrafficEffect]:
        """A routed message, of a neighbour or of this node itself."""
        if message.target != self._own:
            return self._say(message)
        if isinstance(message, Resume):
            if message.origin != self._departures.origin:
                return self._unknown(message, now)
            return self._ask_for_page(message, now)
        if isinstance(message, Lost):
            return self._go_on_behind(message.origin, message.upto, message.source, now)
        return [Told(message)]

    def served(
        self, resume: Resume, page: Range, carried: Sequence[Carried], now: float
    ) -> list[TrafficEffect]:
        """A page was read: everything that its reader wants of the range."""
        reader = self._readers.get(resume.source)
        whose = self._knowledge.towards(resume.source)
        if reader is None or whose not in self._departures.destinations:
            return []
        if self._readers.asks_in_vain(resume.source):
            carried = self._by_the_common_way(carried, resume.source)
        if page.upto < reader.upto:
            page = page._replace(more=True)
        elif page.upto >= self._departures.upto:
            self._departures.go_on(resume.source)
        else:
            page = page._replace(more=self._departures.reads(resume.source))
        levels = [each.level for each in carried]
        runs = [(len(carried), (0,))] if carried else []
        return self._begin(self._departures.frame([page], carried, levels, runs))

    def _unknown(self, resume: Resume, now: float) -> list[TrafficEffect]:
        """Of this node, before it lost its disk; or of one that it was said to keep."""
        self.counts.unknown += 1
        heard = max(self._began or now, self.arrivals.heard(resume.origin) or now - SILENT_ON_LOST)
        if now - heard < SILENT_ON_LOST or self._knowledge.map.node_of_origin(resume.origin):
            return []
        return self._say(Lost(resume.source, self._own, MAX_HOPS, resume.origin, None))

    def _go_on_behind(
        self, origin: str, upto: Mark | None, home: Address, now: float
    ) -> list[TrafficEffect]:
        empty = self._empty(origin, home, Range(self._own, (0, 0), (0, 0)))
        return self._arrivals(self.arrivals.lost(origin, upto, home, empty, now))

    def lose(self, origin: str, after: Mark, upto: Mark, now: float) -> list[TrafficEffect]:
        """No node has what lies behind a place of an origin, and up to another."""
        told = Range(self._own, after, upto, gone=upto)
        arrived = Arrived(told, self._empty(origin, self._own, told), 0, lost=True)
        return self._arrivals(self.arrivals.arrive(arrived, now))

    def _empty(self, origin: str, home: Address, told: Range) -> Frame:
        return Departures(origin, home, (0, 0)).frame([told], [], [], [])

    def _by_the_common_way(self, carried: Sequence[Carried], reader: Address) -> list[Carried]:
        """The events that go the way of those that everybody may see: one that is cleared for more
        may lead in circles, where a unit is not connected inside for that level."""
        common = self._knowledge.next_hop(reader, 0)
        passing = [
            each for each in carried if self._knowledge.next_hop(reader, each.level) == common
        ]
        self.counts.denied += len(carried) - len(passing)
        return passing

    def _ask_for_page(self, message: Resume, now: float) -> list[TrafficEffect]:
        source, upto = message.source, self._departures.upto
        known = self._knowledge.towards(source) in self._departures.destinations
        if not known or not self._readers.ask(source, message.after, upto, now):
            self.counts.unknown += 1
            return []
        self._departures.read_from(source, message.after)
        self.counts.served += 1
        return [Serve(message)]

    # ------------------------------------------------------------------ time

    def log_settled(self, origin: str, now: float) -> list[TrafficEffect]:
        """Events of an origin have become durable here."""
        return self._arrivals(self.arrivals.settled(origin, now))

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        times = (self.arrivals.next_timeout(), self._readers.next_timeout())
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> list[TrafficEffect]:
        """Ask for what is missing, or go on without it; forget who reads no more."""
        for address in self._readers.gone(now):
            self._departures.go_on(address)
        effects: list[TrafficEffect] = []
        for origin, home in self.arrivals.hopeless(now):
            effects += self._go_on_behind(origin, None, home, now)
        return effects + self._arrivals(self.arrivals.handle_timeout(now))

    # ------------------------------------------------------------------ inside

    def _cleared(self, destination: Address, rank: int) -> bool:
        if destination == self._own:
            return True
        return self._knowledge.next_hop(destination, rank) is not None

    def _restarted(self) -> frozenset[Address]:
        """Nodes of the own cluster that are other processes than they were."""
        unit = self._own.unit
        members = self._knowledge.map.members()
        now = {name: node.incarnation for name, node in members.items()}
        before, self._incarnations = self._incarnations, now
        return frozenset(
            Address(unit, name)
            for name, incarnation in now.items()
            if before.get(name, incarnation) != incarnation
        )

    def _divide(self, frame: Frame) -> Division:
        division = divide(frame, self._own, self._knowledge.next_hop)
        self.counts.stuck += division.stuck
        self.counts.denied += division.denied
        return division

    def _begin(self, frame: Frame) -> list[TrafficEffect]:
        self.counts.begun += 1
        frame.history = self._history()
        onward = parts(frame, self._divide(frame).onward, self._group(frame.rank))
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
                    Resume(
                        *(effect.home, self._own, MAX_HOPS),
                        *(effect.origin, effect.after, effect.all, effect.path),
                    )
                )
            else:
                done.append(effect)
        return done

    def _say(self, message: Routed) -> list[TrafficEffect]:
        hop = self._knowledge.next_hop(message.target, message.level) if message.hops else None
        if hop is None:
            self.counts.stuck += 1
            return []
        return [Say(hop, attrs.evolve(message, hops=message.hops - 1))]
