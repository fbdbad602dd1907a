"""One light node of a simulated network: it drives its cores as `broker.cluster.network` does."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from random import Random
from typing import Any, Protocol, TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.interest.effects import Flowing, Unwanted, Wanted
from broker.cluster.messages import Message
from broker.cluster.network_state import Knowledge, KnowledgeEffect, MapMoved
from broker.cluster.tables.effects import Send
from broker.cluster.traffic.core import Cover, Enter, Pass, Say, Serve, Traffic, TrafficEffect
from broker.cluster.traffic.frame import Carried, Frame, Range
from broker.cluster.traffic.messages import Resume, Routed
from broker.cluster.traffic.received_range import Take
from broker.cluster.traffic.sender import Departing
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query, parse_query
from broker.testing.core_node_log import NodeLog, Numbered

STREAM = StreamPattern.parse("s")
#: Events that are looked at for one page.
PAGE = 32
PROGRESS_EVERY = 1.0

#: Numbers from the first to the last one.
Numbers: TypeAlias = tuple[int, int]
_EVERYTHING: Numbers = (-(1 << 62), 1 << 62)
_ONE = re.compile(r"/e\[k = (\d+)\]")
_RANGE = re.compile(r"/e\[k\[\. <= (\d+)(?:\.0)?\]\[\. >= (\d+)(?:\.0)?\]\]")


@cache
def query_of(numbers: Numbers) -> Query:
    """The query for events whose number is one of these."""
    low, high = numbers
    if low == high:
        return parse_query(f"/e[k = {low}]")
    return parse_query(f"/e[k[. <= {high}][. >= {low}]]")


@cache
def numbers_of(text: str) -> Numbers:
    """Which numbers a query asks for; all of them where that can not be told."""
    if found := _ONE.fullmatch(text):
        return (int(found[1]), int(found[1]))
    if found := _RANGE.fullmatch(text):
        return (int(found[2]), int(found[1]))
    return _EVERYTHING


class Surroundings(Protocol):
    """What a node is in."""

    now: float
    random: Random
    commit_fails: float
    late: float

    def at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        """Call it then."""

    def commit_time(self) -> float:
        """When a commit that begins now ends."""

    def send(self, sender: str, receiver: str, message: Message | Frame) -> None:
        """What a node gives to a link."""


@attrs.define
class LocalWant:
    """What a client of the node wants, also after the node's restart."""

    numbers: Numbers
    cuts: dict[str, Mark] | None = None
    """Behind these all of it is to come; None: it does not flow yet."""


class SimulatedNode:
    """Its log and what its clients want live on when it is killed; all else does not."""

    def __init__(self, nodes: Surroundings, descriptor: NodeDescriptor) -> None:
        self.nodes = nodes
        self.descriptor = descriptor
        self.name = descriptor.name
        self.log = NodeLog(descriptor.origin)
        self.wants: dict[int, LocalWant] = {}
        self.alive = False
        self.knowledge: Knowledge
        self.traffic: Traffic

    @property
    def remote_wants(self) -> int:
        """How many wants of destinations it matches events against."""
        return len(self._remote)

    # ------------------------------------------------------------------ the process

    def start(self) -> None:
        """A new process."""
        assert not self.alive
        self.alive = True
        self._wake_at = float("inf")
        self._effects: deque[TrafficEffect | KnowledgeEffect] = deque()
        self._doing = False
        self._last_commit = 0.0
        self._failed: dict[str, int] = {}
        self._cuts: dict[str, Mark] = {}
        self._remote: dict[tuple[Address, str], Numbers] = {}
        self._found: dict[int, frozenset[Address]] = {}
        log, now = self.log, self.nodes.now
        self._sent = log.cut
        self.knowledge = Knowledge(self.descriptor, lambda: (log.origin, *log.cut))
        self.traffic = Traffic(self.knowledge, log.origin, lambda: log.cut, log.covered.get)
        self._climbing = set(self.wants)
        if self._climbing:
            self.traffic.close()
        self._do(self.knowledge.describe(self.descriptor, now))
        for key, want in self.wants.items():
            self._do(self.knowledge.want(key, STREAM, query_of(want.numbers), now))
        self.nodes.at(now + PROGRESS_EVERY, self._progress, self.descriptor.incarnation)

    def kill(self) -> None:
        """The end of the process."""
        self.alive = False
        self.log.crash()
        incarnation = self.descriptor.incarnation + 1
        self.descriptor = self.descriptor._replace(incarnation=incarnation)

    # ------------------------------------------------------------------ what its clients do

    def want(self, key: int, numbers: Numbers) -> None:
        """A client wants events with these numbers."""
        self.wants[key] = LocalWant(numbers)
        if self.alive:
            self._do(self.knowledge.want(key, STREAM, query_of(numbers), self.nodes.now))

    def unwant(self, key: int) -> None:
        """It does not any more."""
        del self.wants[key]
        if self.alive:
            self._climbing.discard(key)
            self._do(self.knowledge.unwant(key, self.nodes.now))
            self._maybe_open()

    def publish(self, events: Iterable[tuple[int, int]]) -> None:
        """A client publishes events: (number, rank of the security level)."""
        placed = self.log.place(events)
        whom = [self._destinations(each.number) for each in placed]
        self._commit(self._committed, placed, whom)

    def _committed(self, placed: list[Numbered], whom: list[frozenset[Address]]) -> None:
        self.log.commit_own(placed)
        after, self._sent = self._sent, placed[-1].mark
        departing = [
            Departing(carried(each), each.level, destinations)
            for each, destinations in zip(placed, whom, strict=True)
        ]
        self._do(self.traffic.began(after, self._sent, departing))

    # ------------------------------------------------------------------ links

    def link_up(self, far: NodeDescriptor, clearance: int) -> None:
        """A link is up."""
        self._do(self.knowledge.link_up(far, "tcp", 1, clearance, self.nodes.now))

    def link_down(self, name: str) -> None:
        """A link is down."""
        self._do(self.knowledge.link_down(name, self.nodes.now))

    def received(self, neighbour: str, message: Message | Frame) -> None:
        """From a link."""
        now = self.nodes.now
        if isinstance(message, Frame):
            self._do(self.traffic.frame_came(message, now))
        elif isinstance(message, Routed):
            self._do(self.traffic.message_came(message, now))
        else:
            self._do(self.knowledge.received(neighbour, message, now))

    # ------------------------------------------------------------------ time

    def _progress(self, incarnation: int) -> None:
        if self.alive and incarnation == self.descriptor.incarnation:
            self._do(self.traffic.progress(self.nodes.now))
            self.nodes.at(self.nodes.now + PROGRESS_EVERY, self._progress, incarnation)

    def _wake(self, incarnation: int, at: float) -> None:
        if self.alive and incarnation == self.descriptor.incarnation and at == self._wake_at:
            self._wake_at = float("inf")
            self._do(self.knowledge.handle_timeout(self.nodes.now))
            self._do(self.traffic.handle_timeout(self.nodes.now))

    def _commit(self, call: object, *args: object) -> None:
        """Commits end in their order, unless the process ends first."""
        end = self._last_commit = max(self._last_commit, self.nodes.commit_time())
        self.nodes.at(end, self._end_commit, self.descriptor.incarnation, call, args)

    def _end_commit(self, incarnation: int, call: object, args: tuple[object, ...]) -> None:
        if self.alive and incarnation == self.descriptor.incarnation:
            call(*args)  # type: ignore[operator]

    # ------------------------------------------------------------------ effects

    def _do(self, effects: Iterable[TrafficEffect | KnowledgeEffect]) -> None:
        self._effects.extend(effects)
        if self._doing:
            return
        self._doing = True
        while self._effects:
            self._apply(self._effects.popleft())
        self._doing = False
        times = (self.knowledge.next_timeout(), self.traffic.next_timeout())
        wake = min((time for time in times if time is not None), default=float("inf"))
        if wake < self._wake_at:
            self._wake_at = wake
            self.nodes.at(wake, self._wake, self.descriptor.incarnation, wake)

    def _apply(self, effect: TrafficEffect | KnowledgeEffect) -> None:
        match effect:
            case Pass(neighbour, message) | Send(neighbour, message) | Say(neighbour, message):
                self.nodes.send(self.name, neighbour, message)
            case Take():
                self._take(effect)
            case Cover(origin, upto):
                self._commit(self._logged, origin, None, upto, upto, [], 0)
            case Enter():
                self._commit(self._entered, effect)
                if self.nodes.random.random() < self.nodes.late:
                    self._do(self.traffic.late(effect))
            case Serve(resume):
                self._commit(self._serve, resume)
            case Wanted(destination, id, want):
                whom = self.knowledge.address_of(destination)
                self._remote[whom, id] = numbers_of(want.query.text)
                self._found.clear()
            case Unwanted(destination, id):
                self._remote.pop((self.knowledge.address_of(destination), id), None)
                self._found.clear()
            case Flowing(key, cuts):
                if cuts != self._cuts:
                    # Those of a thousand origins are not kept for each want.
                    self._cuts = dict(cuts)
                self._flowing(key, self._cuts)  # type: ignore[arg-type]
            case MapMoved():
                self.traffic.map_moved(self.nodes.now)

    def _flowing(self, key: int, cuts: dict[str, Mark]) -> None:
        want = self.wants.get(key)
        if want is None:
            return
        self._do(self.traffic.flowing(cuts, self.nodes.now))
        if want.cuts is None:
            want.cuts = cuts or self._cuts_of_cover(key)
        self._climbing.discard(key)
        self._maybe_open()

    def _cuts_of_cover(self, key: int) -> dict[str, Mark]:
        """Without cuts a want flows where what covers it does, and from where the log stands; of
        origins that were not there when that came to flow nothing is promised."""
        low, high = self.wants[key].numbers
        promised = [
            want.cuts.keys()
            for want in self.wants.values()
            if want.cuts is not None and want.numbers[0] <= low and high <= want.numbers[1]
        ]
        known = {**self.log.covered, **self.traffic.cuts_ahead()}
        origins = set.intersection(*map(set, promised)) if promised else set()
        return {origin: known[origin] for origin in sorted(origins & known.keys())}

    def _maybe_open(self) -> None:
        if not self._climbing:
            self._do(self.traffic.open(self.nodes.now))

    def _take(self, take: Take) -> None:
        frame, told = take.arrived.frame, take.arrived.range
        events = [
            Numbered(frame.origin, each.mark, int(each.document), each.level)
            for each in frame.carried(frame.wanted(take.arrived.index))
            if each.mark > take.cursor and (not told.all or self._wants(int(each.document)))
        ]
        failures = self._failed.get(frame.origin, 0)
        call = self._logged
        self._commit(call, frame.origin, frame.home, take.cursor, told.upto, events, failures)

    def _logged(
        self,
        origin: str,
        home: Address | None,
        cursor: Mark,
        upto: Mark,
        events: list[Numbered],
        failures: int,
    ) -> None:
        now = self.nodes.now
        failed = home is not None and self.nodes.random.random() < self.nodes.commit_fails
        # What was taken behind something that failed fails with it.
        if failed or (home is not None and failures != self._failed.get(origin, 0)):
            self._failed[origin] = self._failed.get(origin, 0) + failed
            self.traffic.arrivals.failed(origin, home, now)  # type: ignore[arg-type]
            self._do(())
            return
        took = self.log.commit_relayed(origin, cursor, upto, events)
        assert took or home is None, (self.name, origin, cursor, upto, self.log.covered)
        self._do(self.traffic.log_settled(origin, now))

    def _entered(self, enter: Enter) -> None:
        if enter.arrived is None:
            self._do(self.traffic.late(enter))
            return
        departing = []
        for each in enter.frame.carried(enter.frame.wanted(enter.arrived.index)):
            number = int(each.document)
            whom = self._destinations(number)
            if self._wants(number):
                whom = whom | {self.knowledge.address}
            departing.append(Departing(each, each.level, whom))
        self._do(self.traffic.entered(enter, departing, self.nodes.now))

    def _serve(self, resume: Resume) -> None:
        knowledge = self.knowledge
        events, upto = self.log.page(resume.after, PAGE)
        reader = resume.source
        whose = knowledge.towards(reader)
        chosen = [
            carried(each)
            for each in events
            if (resume.all or whose in self._destinations(each.number))
            and knowledge.next_hop(reader, each.level) is not None
        ]
        page = Range(reader, resume.after, upto, all=resume.all)
        self._do(self.traffic.served(resume, page, chosen, self.nodes.now))

    # ------------------------------------------------------------------ matching

    def _wants(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self._own_numbers())

    def _own_numbers(self) -> Sequence[Numbers]:
        return [want.numbers for want in self.wants.values()]

    def _destinations(self, number: int) -> frozenset[Address]:
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = frozenset(
                whom for (whom, _), (low, high) in self._remote.items() if low <= number <= high
            )
        return found


def carried(event: Numbered) -> Carried:
    """An event as frames carry it."""
    return Carried(event.mark, b"r", str(event.number).encode(), event.level)
