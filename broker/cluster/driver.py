"""Runs the two cores of a node's network: does what they decide, in order, and owns their timer.

The cores are `knowledge` (what is known of others) and `traffic` (events and who is to get them).
What follows from an effect waits its turn, so no core is called while it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping

from twisted.logger import Logger

from broker.cluster import messages
from broker.cluster.clone_detection import later_process
from broker.cluster.dtd_exchange import NeighbourDtds
from broker.cluster.ingest_job import Job
from broker.cluster.interest.effects import BadWant, Flowing, Unwanted, Wanted
from broker.cluster.local_interest import LocalWants
from broker.cluster.log_page_server import Pages
from broker.cluster.multicast_group import ClusterGroup
from broker.cluster.neighbours import Neighbours
from broker.cluster.network_state import Knowledge, KnowledgeEffect, MapMoved
from broker.cluster.relay_ingest import Intake
from broker.cluster.remote_interest import RemoteWants
from broker.cluster.replicas.service import Keeping
from broker.cluster.tables.effects import Namesake, Send
from broker.cluster.traffic.core import (
    Cover,
    Enter,
    Pass,
    Say,
    Serve,
    Told,
    Traffic,
    TrafficEffect,
)
from broker.cluster.traffic.forwarding import GROUP
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.messages import AskDtd, Kept, Resume, Routed, TellDtd
from broker.cluster.traffic.received_range import NoteHistory, Take
from broker.cluster.types.core import Announced
from broker.cluster.types.network_types import NetworkTypes
from broker.errors import BrokerError, Cloned, LogUnavailable
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.log.gathering import Relayed
from broker.transport.alarm import Alarm
from broker.transport.clock import IClock


class ClusterDriver:
    """Both cores, as long as the node is in a cluster."""

    log = Logger()
    neighbours: Neighbours
    group: ClusterGroup
    keeping: Keeping
    pages: Pages

    def __init__(
        self,
        *,
        event_log: EventLog,
        wants: RemoteWants,
        intake: Intake,
        dtds: NeighbourDtds,
        types: NetworkTypes,
        clock: IClock,
        wall_clock: Callable[[], int],
        map_moved: Callable[[], object],
    ) -> None:
        self.wants = wants
        self.intake = intake
        self.local = LocalWants(wall_clock)
        self.knowledge: Knowledge | None = None
        self.traffic: Traffic | None = None
        self._event_log = event_log
        self._dtds = dtds
        self.types = types
        self._clock = clock
        self._map_moved = map_moved
        self._effects: deque[TrafficEffect | KnowledgeEffect] = deque()
        self._doing = False
        self._alarm = Alarm(clock, self._timeout)
        self.told_others: Callable[[Routed], object] = lambda _: None
        """Told messages for this node that are about something else than the network itself."""

        self.cloned: Callable[[Cloned], object] = lambda _: None
        """Told of signs that a later process runs on a copy of this node's log."""

        self.must_wait: Callable[[Resume], bool] = lambda _: False
        """Whether a reader is answered later, by `serve`."""

    def serve(self, resume: Resume) -> None:
        """Answer a reader that had to wait, unless the node is in no cluster any more."""
        if self.traffic is not None:
            self.pages.serve(resume)

    def start(self, knowledge: Knowledge, traffic: Traffic) -> None:
        """Run these from now on."""
        self.knowledge, self.traffic = knowledge, traffic
        self._begin(self.local.newcomers.named)
        self.types.start(knowledge, self.do)

    def goes_on(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """A key of `local` was wanted before, and has got to these places. Origins that are not
        known here begin there: what there is of one may be at its keeper alone, who lets everybody
        know that is told of it."""
        coverage = self._event_log.coverage
        unknown = {o: mark for o, mark in position.items() if o not in coverage}
        self.local.newcomers.wait(key, unknown)
        self._begin(unknown)

    def wanted_behind(self, origin: str) -> Mark | None:
        """From where on an origin is wanted here whose node is gone; None: it is not."""
        known = None if self.traffic is None else self.traffic.arrivals.stands_at(origin)
        return known or self.local.newcomers.lacks(origin)

    def _begin(self, marks: Mapping[str, Mark]) -> None:
        arrivals = None if self.traffic is None else self.traffic.arrivals
        if arrivals is not None:
            for origin, mark in {**arrivals.begun, **marks}.items():
                arrivals.begin(origin, mark)

    def stop(self) -> None:
        """Run nothing any more; forget what others wanted."""
        self.knowledge = self.traffic = None
        self.wants.clear()
        self.types.stop()
        self._effects.clear()
        self._alarm.set(None)

    def now(self) -> float:
        """Monotonic seconds."""
        return float(self._clock.seconds())

    def send_routed(self, message: Routed) -> None:
        """Send a message on its way to the node that it is for."""
        if self.traffic is not None:
            self.do(self.traffic.message_came(message, self.now()))

    def send_frame(self, frame: Frame) -> None:
        """Send a frame on its way."""
        if self.traffic is not None:
            self.do(self.traffic.frame_came(frame, self.now()))

    def lose(self, origin: str, after: Mark, upto: Mark) -> None:
        """No node has what lies behind a place of an origin, and up to another."""
        if self.traffic is not None:
            self.do(self.traffic.lose(origin, after, upto, self.now()))

    def do(self, effects: Iterable[TrafficEffect | KnowledgeEffect]) -> None:
        """Do these, behind what is still to be done."""
        self._effects.extend(effects)
        if self._doing:
            return
        self._doing = True
        try:
            while self._effects:
                self._apply(self._effects.popleft())
        finally:
            self._doing = False
        if self.knowledge is not None and self.traffic is not None:
            times = (self.knowledge.next_timeout(), self.traffic.next_timeout())
            self._alarm.set(min((time for time in times if time is not None), default=None))

    def all_flow(self) -> None:
        """Take what comes, if all that is wanted here flows by now."""
        if self.traffic is not None and not self.local.climbing:
            self.do(self.traffic.open(self.now()))

    def _timeout(self) -> None:
        now = self.now()
        if self.knowledge is not None and self.traffic is not None:
            self.do(self.knowledge.handle_timeout(now))
            self.do(self.traffic.handle_timeout(now))

    def _apply(self, effect: TrafficEffect | KnowledgeEffect) -> None:
        knowledge, traffic = self.knowledge, self.traffic
        if knowledge is None or traffic is None:
            return
        match effect:
            case Pass(neighbour, frame):
                self._pass(neighbour, frame)
            case Say(neighbour, message) if self._version(neighbour) < message.least_version:
                traffic.counts.stuck += 1
            case Say(neighbour, message):
                said = message.at_version(self._version(neighbour))
                self.neighbours.tell(messages.encode(said), neighbour)
            case Send(neighbour, message):
                self.neighbours.tell(messages.encode(message), neighbour)
            case NoteHistory(origin, histories):
                self._event_log.note_histories(origin, histories)
            case Take():
                self._take(effect)
            case Cover():
                self._cover(effect)
            case Enter():
                self._enter(effect)
            case Serve(resume):
                if not self.must_wait(resume):
                    self.pages.serve(resume)
            case Wanted(destination, id, want):
                whom = knowledge.address_of(destination)
                if self.wants.install(whom, id, want):
                    traffic.wants_began(whom)
            case Unwanted(destination, id):
                self.wants.remove(knowledge.address_of(destination), id)
            case Flowing(key, cuts):
                self._flowing(key, cuts)
            case BadWant():
                self.log.warn(
                    "a want of {author} can not be read, and is widened: {reason}",
                    author=effect.author,
                    reason=effect.reason,
                )
            case MapMoved():
                traffic.map_moved(self.now())
                self._map_moved()
            case Announced():
                self.types.announced(effect)
            case Namesake(tables):
                error = later_process(knowledge.node, tables)
                if error is not None:
                    self.cloned(error)
            case Told(message):
                self._told(message)

    def _version(self, name: str) -> int:
        """Of the protocol between nodes that a neighbour speaks."""
        neighbour = self.neighbours.get(name)
        return 1 if neighbour is None else neighbour.version

    def _told(self, message: Routed) -> None:
        if isinstance(message, Kept):
            self.keeping.kept(message)
        elif isinstance(message, AskDtd | TellDtd):
            self._dtds.told(message)
        else:
            self.told_others(message)

    def _flowing(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        if self.traffic is not None and key in self.local:
            self.do(self.traffic.flowing(cuts, self.now()))
            told = dict(cuts or self.traffic.cuts_ahead())
            # What has come was chosen by others before they knew of this.
            for origin, mark in self.traffic.arrivals.chosen.items():
                told[origin] = max(mark, told.get(origin, mark))
            self.local.flows(key, told)
            self.all_flow()

    def _cover(self, cover: Cover) -> None:
        def done(result: object) -> None:
            if not isinstance(result, BrokerError):
                self.intake.begins(cover.origin, cover.upto)
            if self.traffic is not None:
                self.do(self.traffic.log_settled(cover.origin, self.now()))

        try:
            nothing = Relayed(cover.origin, cover.upto, cover.upto, [])
            self._event_log.append_relayed(nothing, done)
        except LogUnavailable:
            # Where it begins is remembered until the first range of the origin is logged.
            return

    def _take(self, take: Take) -> None:
        arrived = take.arrived
        origin, home = arrived.frame.origin, arrived.frame.home

        def settled(error: BrokerError | None) -> None:
            traffic, knowledge = self.traffic, self.knowledge
            if traffic is None or knowledge is None:
                return
            if error is not None:
                traffic.arrivals.failed(origin, home, self.now())
                self.do(())
                return
            self.do(traffic.log_settled(origin, self.now()))

        self.intake.take(arrived, take.cursor, settled)

    def _enter(self, enter: Enter) -> None:
        def late() -> None:
            if self.traffic is not None:
                self.do(self.traffic.late(enter))

        def entered(job: Job) -> None:
            if self.traffic is not None and self.knowledge is not None:
                departing = self.wants.departing(job, self.knowledge.address)
                self.do(self.traffic.entered(enter, departing, self.now()))

        if enter.arrived is None:
            self.intake.follow(enter.frame, late)
        else:
            self.intake.match(enter.arrived, entered, late)

    def _pass(self, name: str, frame: Frame) -> None:
        if name == GROUP:
            version = min(map(self._version, self.group.members), default=1)
            self.group.send(frame.encode(version))
            return
        neighbour = self.neighbours.get(name)
        if neighbour is not None and "zstd" not in neighbour.node.compressions:
            frame = frame.uncompressed()
        self.neighbours.send(frame.encode(self._version(name)), (name,))
