"""One node of a core network: drives its cores as `broker.cluster.network` does."""

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
from broker.cluster.interest.effects import InterestActive, InterestAdded, InterestRemoved
from broker.cluster.messages import Message
from broker.cluster.network_state import MapChanged, NetworkState, NetworkStateEffect
from broker.cluster.tables.effects import Send
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.effects import (
    CoverOrigin,
    EnterUnit,
    ReadPage,
    SendFrame,
    SendMessage,
    TrafficEffect,
)
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import PageRequest, RoutedMessage
from broker.cluster.traffic.received_range import AppendRange
from broker.cluster.traffic.sender import OutgoingEvent
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query, parse_query
from broker.streams.contract import CarriedEvent
from broker.testing.core_node_log import CoreNodeLog, NumberedEvent

STREAM = StreamPattern.parse("s")
PAGE = 32
PROGRESS_EVERY = 1.0

#: Both included.
Numbers: TypeAlias = tuple[int, int]
_EVERYTHING: Numbers = (-(1 << 62), 1 << 62)
_ONE = re.compile(r"/e\[k = (\d+)\]")
_RANGE = re.compile(r"/e\[k\[\. <= (\d+)(?:\.0)?\]\[\. >= (\d+)(?:\.0)?\]\]")


@cache
def make_query(numbers: Numbers) -> Query:
    low, high = numbers
    if low == high:
        return parse_query(f"/e[k = {low}]")
    return parse_query(f"/e[k[. <= {high}][. >= {low}]]")


@cache
def parse_numbers(text: str) -> Numbers:
    """Return the numbers that a query selects; all for an unknown form."""
    if found := _ONE.fullmatch(text):
        return (int(found[1]), int(found[1]))
    if found := _RANGE.fullmatch(text):
        return (int(found[2]), int(found[1]))
    return _EVERYTHING


class NodeEnvironment(Protocol):
    now: float
    random: Random
    commit_failure_rate: float
    late_entry_rate: float

    def call_at(self, time: float, call: Callable[..., None], *args: Any) -> None:
        """See `CoreNetwork`."""

    def draw_commit_end(self) -> float:
        """See `CoreNetwork`."""

    def send(self, sender: str, receiver: str, message: Message | Frame) -> None:
        """See `CoreNetwork`."""


@attrs.define
class LocalInterest:
    """It survives the node's restart."""

    numbers: Numbers
    cuts: dict[str, Mark] | None = None
    """All matching events after these marks must arrive; None: not active yet."""


class CoreNode:
    """Node whose log and client interests survive `kill`."""

    def __init__(self, nodes: NodeEnvironment, descriptor: NodeDescriptor) -> None:
        self.environment = nodes
        self.descriptor = descriptor
        self.name = descriptor.name
        self.log = CoreNodeLog(descriptor.origin)
        self.interests: dict[int, LocalInterest] = {}
        self.is_alive = False
        self.state: NetworkState
        self.traffic: Traffic

    @property
    def remote_interest_count(self) -> int:
        return len(self._remote)

    # ------------------------------------------------------------------ the process

    def start(self) -> None:
        assert not self.is_alive
        self.is_alive = True
        self._wake_at = float("inf")
        self._effects: deque[TrafficEffect | NetworkStateEffect] = deque()
        self._is_performing = False
        self._last_commit = 0.0
        self._failed: dict[str, int] = {}
        self._cuts: dict[str, Mark] = {}
        self._remote: dict[tuple[Address, str], Numbers] = {}
        self._found: dict[int, frozenset[Address]] = {}
        log, now = self.log, self.environment.now
        self._sent = log.newest_place
        self.state = NetworkState(self.descriptor, lambda: [(log.origin, *log.newest_place)])
        self.traffic = Traffic(self.state, log.origin, lambda: log.newest_place, log.covered.get)
        self._pending_interests = set(self.interests)
        if self._pending_interests:
            self.traffic.pause_receiving()
        self._perform(self.state.publish_descriptor(self.descriptor, now))
        for key, interest in self.interests.items():
            self._perform(
                self.state.announce_interest(key, STREAM, make_query(interest.numbers), now)
            )
        self.environment.call_at(now + PROGRESS_EVERY, self._progress, self.descriptor.incarnation)

    def kill(self) -> None:
        self.is_alive = False
        self.log.crash()
        incarnation = self.descriptor.incarnation + 1
        self.descriptor = self.descriptor._replace(incarnation=incarnation)

    # ------------------------------------------------------------------ what its clients do

    def announce_interest(self, key: int, numbers: Numbers) -> None:
        self.interests[key] = LocalInterest(numbers)
        if self.is_alive:
            self._perform(
                self.state.announce_interest(key, STREAM, make_query(numbers), self.environment.now)
            )

    def withdraw_interest(self, key: int) -> None:
        del self.interests[key]
        if self.is_alive:
            self._pending_interests.discard(key)
            self._perform(self.state.withdraw_interest(key, self.environment.now))
            self._open_when_active()

    def publish(self, events: Iterable[tuple[int, int]]) -> None:
        """Publish events of (number, rank of the security level)."""
        placed = self.log.assign_places(events)
        all_destinations = [self._destinations(each.number) for each in placed]
        self._commit(self._finish_publish, placed, all_destinations)

    def _finish_publish(
        self, placed: list[NumberedEvent], all_destinations: list[frozenset[Address]]
    ) -> None:
        self.log.commit_own(placed)
        after, self._sent = self._sent, placed[-1].mark
        departing = [
            OutgoingEvent(carried(each), each.level, destinations)
            for each, destinations in zip(placed, all_destinations, strict=True)
        ]
        self._perform(self.traffic.send_own_events(after, self._sent, departing))

    # ------------------------------------------------------------------ links

    def link_up(self, far: NodeDescriptor, clearance: int) -> None:
        self._perform(self.state.link_up(far, "tcp", 1, clearance, self.environment.now))

    def link_down(self, name: str) -> None:
        self._perform(self.state.link_down(name, self.environment.now))

    def receive(self, neighbour: str, message: Message | Frame) -> None:
        now = self.environment.now
        if isinstance(message, Frame):
            self._perform(self.traffic.receive_frame(message, now))
        elif isinstance(message, RoutedMessage):
            self._perform(self.traffic.receive_message(message, now))
        else:
            self._perform(self.state.receive_message(neighbour, message, now))

    # ------------------------------------------------------------------ time

    def _progress(self, incarnation: int) -> None:
        if self.is_alive and incarnation == self.descriptor.incarnation:
            self._perform(self.traffic.send_progress(self.environment.now))
            self.environment.call_at(
                self.environment.now + PROGRESS_EVERY, self._progress, incarnation
            )

    def _wake(self, incarnation: int, at: float) -> None:
        if self.is_alive and incarnation == self.descriptor.incarnation and at == self._wake_at:
            self._wake_at = float("inf")
            self._perform(self.state.handle_timeout(self.environment.now))
            self._perform(self.traffic.handle_timeout(self.environment.now))

    def _commit(self, call: object, *args: object) -> None:
        """End commits in order, unless the process ends first."""
        end = self._last_commit = max(self._last_commit, self.environment.draw_commit_end())
        self.environment.call_at(end, self._end_commit, self.descriptor.incarnation, call, args)

    def _end_commit(self, incarnation: int, call: object, args: tuple[object, ...]) -> None:
        if self.is_alive and incarnation == self.descriptor.incarnation:
            call(*args)  # type: ignore[operator]

    # ------------------------------------------------------------------ effects

    def _perform(self, effects: Iterable[TrafficEffect | NetworkStateEffect]) -> None:
        self._effects.extend(effects)
        if self._is_performing:
            return
        self._is_performing = True
        while self._effects:
            self._apply(self._effects.popleft())
        self._is_performing = False
        times = (self.state.next_timeout(), self.traffic.next_timeout())
        wake = min((time for time in times if time is not None), default=float("inf"))
        if wake < self._wake_at:
            self._wake_at = wake
            self.environment.call_at(wake, self._wake, self.descriptor.incarnation, wake)

    def _apply(self, effect: TrafficEffect | NetworkStateEffect) -> None:
        match effect:
            case (
                SendFrame(neighbour, message)
                | Send(neighbour, message)
                | SendMessage(neighbour, message)
            ):
                self.environment.send(self.name, neighbour, message)
            case AppendRange():
                self._log_arrived(effect)
            case CoverOrigin(origin, upto):
                self._commit(self._finish_log, origin, None, upto, upto, [], 0)
            case EnterUnit():
                self._commit(self._enter_unit, effect)
                if self.environment.random.random() < self.environment.late_entry_rate:
                    self._perform(self.traffic.release_onward(effect))
            case ReadPage(resume):
                self._commit(self._serve_page, resume)
            case InterestAdded(destination, id, interest):
                address = self.state.to_frame_destination(destination)
                self._remote[address, id] = parse_numbers(interest.query.text)
                self._found.clear()
            case InterestRemoved(destination, id):
                self._remote.pop((self.state.to_frame_destination(destination), id), None)
                self._found.clear()
            case InterestActive(key, cuts):
                if cuts != self._cuts:
                    # A thousand origins per interest would take much memory.
                    self._cuts = dict(cuts)
                self._activate_interest(key, self._cuts)  # type: ignore[arg-type]
            case MapChanged():
                self.traffic.update_destinations(self.environment.now)

    def _activate_interest(self, key: int, cuts: dict[str, Mark]) -> None:
        interest = self.interests.get(key)
        if interest is None:
            return
        self._perform(self.traffic.record_cuts(cuts, self.environment.now))
        if interest.cuts is None:
            interest.cuts = cuts or self._cuts_of_cover(key)
        self._pending_interests.discard(key)
        self._open_when_active()

    def _cuts_of_cover(self, key: int) -> dict[str, Mark]:
        """Return the marks from which an interest without cuts is complete.

        It is active where its covering interests are. Origins unknown then are not promised.
        """
        low, high = self.interests[key].numbers
        promised = [
            interest.cuts.keys()
            for interest in self.interests.values()
            if interest.cuts is not None
            and interest.numbers[0] <= low
            and high <= interest.numbers[1]
        ]
        known = {**self.log.covered, **self.traffic.unreached_cuts()}
        origins = set.intersection(*map(set, promised)) if promised else set()
        return {origin: known[origin] for origin in sorted(origins & known.keys())}

    def _open_when_active(self) -> None:
        if not self._pending_interests:
            self._perform(self.traffic.resume_receiving(self.environment.now))

    def _log_arrived(self, take: AppendRange) -> None:
        frame, frame_range = take.received.frame, take.received.range
        events = [
            NumberedEvent(frame.origin, each.mark, int(each.document), each.level)
            for each in frame.events_at(frame.event_indices_for(take.received.index))
            if each.mark > take.cursor
            and (not frame_range.is_unfiltered or self._is_wanted(int(each.document)))
        ]
        failures = self._failed.get(frame.origin, 0)
        call = self._finish_log
        self._commit(
            call, frame.origin, frame.origin_node, take.cursor, frame_range.upto, events, failures
        )

    def _finish_log(
        self,
        origin: str,
        origin_node: Address | None,
        cursor: Mark,
        upto: Mark,
        events: list[NumberedEvent],
        failures: int,
    ) -> None:
        now = self.environment.now
        failed = (
            origin_node is not None
            and self.environment.random.random() < self.environment.commit_failure_rate
        )
        # Ranges behind a failed commit fail with it.
        if failed or (origin_node is not None and failures != self._failed.get(origin, 0)):
            self._failed[origin] = self._failed.get(origin, 0) + failed
            self.traffic.receiver.retry_after_failure(origin, origin_node, now)  # type: ignore[arg-type]
            self._perform(())
            return
        took = self.log.commit_relayed(origin, cursor, upto, events)
        assert took or origin_node is None, (self.name, origin, cursor, upto, self.log.covered)
        self._perform(self.traffic.confirm_durable(origin, now))

    def _enter_unit(self, enter: EnterUnit) -> None:
        if enter.received is None:
            self._perform(self.traffic.release_onward(enter))
            return
        departing = []
        for each in enter.frame.events_at(enter.frame.event_indices_for(enter.received.index)):
            number = int(each.document)
            destinations = self._destinations(number)
            if self._is_wanted(number):
                destinations = destinations | {self.state.address}
            departing.append(OutgoingEvent(each, each.level, destinations))
        self._perform(self.traffic.send_into_unit(enter, departing, self.environment.now))

    def _serve_page(self, resume: PageRequest) -> None:
        state = self.state
        events, upto = self.log.read_page(resume.after, PAGE)
        reader = resume.source
        destination = state.destination_of(reader)
        chosen = [
            carried(each)
            for each in events
            if (resume.is_unfiltered or destination in self._destinations(each.number))
            and state.next_hop(reader, each.level) is not None
        ]
        page = Range(reader, resume.after, upto, is_unfiltered=resume.is_unfiltered)
        self._perform(self.traffic.send_page(resume, [(page, chosen)], self.environment.now))

    # ------------------------------------------------------------------ matching

    def _is_wanted(self, number: int) -> bool:
        return any(low <= number <= high for low, high in self._own_numbers())

    def _own_numbers(self) -> Sequence[Numbers]:
        return [interest.numbers for interest in self.interests.values()]

    def _destinations(self, number: int) -> frozenset[Address]:
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = frozenset(
                address
                for (address, _), (low, high) in self._remote.items()
                if low <= number <= high
            )
        return found


def carried(event: NumberedEvent) -> CarriedEvent:
    return CarriedEvent(event.mark, b"r", str(event.number).encode(), event.level)
