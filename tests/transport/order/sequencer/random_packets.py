"""Random interleavings of packets, suspicions and offers between cores of the sequencer variant."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import permutations
from random import Random
from typing import NamedTuple

from broker.transport.effects import Failed
from broker.transport.order import (
    VARIANTS,
    Deliver,
    Instant,
    MessageId,
    Move,
    OrderEffect,
    OrderSettings,
    Send,
    Stamp,
    Suspect,
)
from broker.transport.view import LinkState

SETTINGS = OrderSettings()


class Offer(NamedTuple):
    counter: int


class Answer(NamedTuple):
    counter: int


class RandomPackets:
    """Sites whose packets are delivered one by one, in the order of each direction.

    Time passes only while no packet is under way, nor a connection. So no suspicion for a late
    message is justified.
    """

    def __init__(self, seed: int, sites: str) -> None:
        self.violations: list[str] = []
        self.places: dict[str, dict[MessageId, Stamp]] = {site: {} for site in sites}
        self.sent: dict[MessageId, int] = {}
        self._random = Random(seed)
        self._sites = sites
        self._cores = {site: VARIANTS["sequencer"].create_core(site, 1, SETTINGS) for site in sites}
        self._pairs = [*permutations(sites, 2)]
        self._slowness = {pair: self._random.choice((1, 1, 3, 10)) for pair in self._pairs}
        self._connected: set[tuple[str, str]] = set()
        self._offered: set[tuple[str, str]] = set()
        self._kept: dict[tuple[str, str], deque[object]] = {each: deque() for each in self._pairs}
        self._wires: dict[tuple[str, str], deque[object]] = {each: deque() for each in self._pairs}
        self._now = 0.0
        self._step = 0
        # The last steps at which a pair was not connected, and the statuses not transitive.
        self._apart = dict.fromkeys(self._pairs, 0)
        self._unsettled = dict.fromkeys(sites, 0)

    def run(self, steps: int) -> None:
        """Do random steps, and then let all sites connect and settle."""
        self._connect_all()
        for _ in range(steps):
            self._begin_step()
            self._act()
        for _ in range(60):
            self._connect_all()
            self._pass_time()
        self._connect_all()

    # ----------------------------------------------------------------- of the schedule

    def _act(self) -> None:
        random, waiting = self._random, self._waiting
        if waiting and random.random() < 0.72:
            rates = [1 / self._slowness[pair] for pair in waiting]
            self._deliver(*random.choices(waiting, rates)[0])
            return
        pair, kind = random.choice(self._pairs), random.random()
        if kind < 0.4:
            self._send(pair[0])
        elif kind < 0.5:
            self._lose([pair])
        elif kind < 0.6:
            self._cut(*pair)
        elif kind < 0.85:
            self._offer(*pair)
        elif not waiting and all((b, a) in self._connected for a, b in self._connected):
            self._pass_time()

    @property
    def _waiting(self) -> list[tuple[str, str]]:
        return [pair for pair in self._pairs if self._wires[pair]]

    def _connect_all(self) -> None:
        for pair in self._pairs:
            self._offer(*pair)
        while waiting := self._waiting:
            self._begin_step()
            self._deliver(*self._random.choice(waiting))

    def _pass_time(self) -> None:
        times = {site: core.next_timeout() for site, core in self._cores.items()}
        time, site = min(
            ((time, site) for site, time in times.items() if time is not None),
            default=(self._now + 1.0, ""),
        )
        self._now = max(self._now, time)
        if site:
            self._apply(site, self._cores[site].handle_timeout(self._at))

    @property
    def _at(self) -> Instant:
        return Instant(self._now, 0)

    # ----------------------------------------------------------------- of the links

    def _send(self, site: str) -> None:
        self._cores[site].stamp(1, self._at)
        number = sum(id.site == site for id in self.sent) + 1
        self.sent[MessageId(site, 1, number)] = self._step
        self._apply(site, self._cores[site].release([b""], self._at))

    def _offer(self, site: str, peer: str) -> None:
        if (site, peer) not in self._connected | self._offered:
            self._offered.add((site, peer))
            counter = self._cores[site].offer_clock(peer, self._at)
            self._wires[site, peer].append(Offer(counter))

    def _deliver(self, sender: str, receiver: str) -> None:
        packet, core = self._wires[sender, receiver].popleft(), self._cores[receiver]
        match packet:
            case Offer(counter):
                answer = core.answer_clock(sender, counter, self._at)
                if answer is None:
                    # The own offer goes first: the site asks again.
                    self._now += 0.01
                    self._wires[sender, receiver].append(packet)
                    return
                self._wires[receiver, sender].append(Answer(answer))
            case Answer(counter):
                self._offered.discard((receiver, sender))
                effects = core.connect(sender, counter, self._at)
                if effects is None:
                    self._offer(receiver, sender)
                    return
                self._connected.add((receiver, sender))
                self._wires[receiver, sender] += self._kept[receiver, sender]
                self._kept[receiver, sender].clear()
                self._apply(receiver, effects)
            case _:
                self._apply(receiver, core.receive(sender, [packet], self._at))

    def _lose(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Let sites suspect peers, all at once."""
        lost = [pair for pair in pairs if pair in self._connected]
        self._connected.difference_update(lost)
        self._record_statuses()
        for site, peer in lost:
            effects = self._cores[site].disconnect(peer, LinkState.SUSPECTED, self._at)
            self._apply(site, effects)

    def _cut(self, one: str, other: str) -> None:
        """Break a connection. Packets under way are sent again later."""
        for pair in ((one, other), (other, one)):
            packets = [each for each in self._wires[pair] if not isinstance(each, Offer | Answer)]
            self._wires[pair].clear()
            self._kept[pair].extendleft(reversed(packets))
            self._offered.discard(pair)
        self._lose([(one, other), (other, one)])

    # ----------------------------------------------------------------- of the properties

    def _begin_step(self) -> None:
        self._step += 1
        assert self._step < 50_000, "the exchange does not end"
        self._record_statuses()

    def _record_statuses(self) -> None:
        for pair in self._pairs:
            if pair not in self._connected:
                self._apart[pair] = self._step
        for site in self._sites:
            joined = {site}
            for _ in self._sites:
                joined |= {b for a, b in self._connected if a in joined}
                joined |= {a for a, b in self._connected if b in joined}
            if not self._connected.issuperset(permutations(joined, 2)):
                self._unsettled[site] = self._step

    def _was_connected(self, site: str, id: MessageId) -> bool:
        begin, sender = self.sent[id], id.site
        ends = [self._unsettled[site], self._unsettled[sender]]
        if site != sender:
            ends += [self._apart[site, sender], self._apart[sender, site]]
        return max(ends) < begin

    def _apply(self, site: str, effects: Iterable[OrderEffect]) -> None:
        for effect in effects:
            match effect:
                case Send(packets, sites):
                    for peer in [each for each in self._sites if each != site]:
                        if sites is None or peer in sites:
                            is_connected = (site, peer) in self._connected
                            queues = self._wires if is_connected else self._kept
                            queues[site, peer] += packets
                case Deliver(message, stamp, late):
                    self._record(site, message.id, stamp, is_late=late is not None)
                case Move(id, _, stamp):
                    self._record(site, id, stamp, is_late=True)
                case Suspect(peer, reason):
                    if reason == "late":
                        self.violations.append(f"{site} suspects {peer}")
                    self._cut(site, peer)
                case Failed(error):
                    self.violations.append(f"{site}: {error}")

    def _record(self, site: str, id: MessageId, stamp: Stamp, *, is_late: bool) -> None:
        self.places[site][id] = stamp
        if is_late and self._was_connected(site, id):
            self.violations.append(f"step {self._step}: {id} came late or moved at {site}")
