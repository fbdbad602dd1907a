"""Runs a variant over the schedule of a seed, and returns the record for the checker."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from itertools import permutations
from random import Random

from broker.testing.order.fan_out import FanOut, MakeFanOut
from broker.testing.order.link import IOwner, Link
from broker.testing.order.loop import Loop
from broker.testing.order.members import ADMIT, REMOVE, Members
from broker.testing.order.network import Network, Path
from broker.testing.order.run import Run
from broker.testing.order.schedule import (
    Action,
    ChangeSites,
    Cut,
    Kill,
    Publish,
    SetExtraDelay,
    SetPath,
    Shape,
    Start,
    StepClock,
    Timed,
    make_changes,
    make_schedule,
)
from broker.testing.order.site import Site
from broker.testing.order.timers import Timers
from broker.transport.multicast.wire import KEY_BYTES
from broker.transport.order import IOrderVariant, OrderSettings
from broker.transport.order.instant import MICROSECONDS

#: `suspect` is short, so that many outages are longer.
TIMERS = Timers(suspect=15.0)
#: Bounds of the start of a clock, and of its steps in sum.
_SKEW = 20_000
#: Sites that join, in each fourth seed.
NEWCOMERS = ("x", "y")
#: Rate of lost datagrams.
_GROUP_LOSS = 0.1
_DELAYS = ((0.001, 0.002), (0.01, 0.02), (0.05, 0.03))


class SiteClock:
    """A clock that runs on with monotonic time. It stands still instead of stepping back."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._highest = 0

    def step(self, microseconds: int) -> None:
        self._offset = max(-_SKEW, min(_SKEW, self._offset + microseconds))

    def read(self, now: float) -> int:
        self._highest = max(self._highest, _SKEW + self._offset + round(now * MICROSECONDS))
        return self._highest


class Simulation:
    """Three to five sites, and what a seed does to them."""

    def __init__(
        self,
        variant: IOrderVariant,
        seed: int,
        shape: Shape | None = None,
        settings: OrderSettings | None = None,
        link: type[Link] = Link,
        sites: Sequence[str] = (),
        actions: Sequence[Timed] | None = None,
        fan_out: MakeFanOut | None = None,
    ) -> None:
        """`fan_out` makes the layer above the links; None: each message is sent as copies.

        `sites` and `actions` take the place of those of the seed.

        Fewer actions change no delays of paths that they do not use.
        """
        random = Random(seed)
        self._seed = seed
        self._group_random = Random(seed)
        self._fan_outs: dict[str, FanOut] = {}
        self._variant = variant
        self._link = link
        self._fan_out = fan_out
        self._shape = shape or Shape()
        self._loop = Loop()
        names = tuple(sites or "abcde"[: random.choice((3, 3, 4, 4, 5))])
        newcomers = NEWCOMERS if not sites and seed % 4 == 1 else ()
        self._network = Network(self._loop)
        self._network.is_running = self._is_running
        self.run = Run(
            variant.name,
            (*names, *newcomers),
            settings or OrderSettings(),
            TIMERS,
            delay=max(map(sum, _DELAYS)),
            skew=2 * _SKEW / MICROSECONDS,
            newcomers=newcomers,
            shares_bodies=fan_out is not None,
        )
        self._keeps_packets = random.random() < 0.5
        for pair in permutations(names, 2):
            self._network.paths[pair] = Path(*random.choice(_DELAYS), random.random())
        others = Random(seed)
        for pair in permutations(self.run.sites, 2):
            if pair not in self._network.paths:
                self._network.paths[pair] = Path(*others.choice(_DELAYS), others.random())
        # Silence of a path is counted: overlapping faults end with the last of them.
        self._silences = dict.fromkeys(self._network.paths, 0)
        self._clocks = {name: SiteClock(random.randrange(-_SKEW, _SKEW)) for name in names}
        self._clocks |= {name: SiteClock(others.randrange(-_SKEW, _SKEW)) for name in newcomers}
        self._sites: dict[str, Site] = {}
        self._codec = variant.create_codec(names)
        self._members = {name: Members.from_names(names) for name in names}
        self._incarnations = dict.fromkeys(self.run.sites, 0)
        self._floors = dict.fromkeys(self.run.sites, 0)
        if actions is None:
            actions = make_schedule(random, names, self._shape)
            if newcomers:
                actions += make_changes(others, names, newcomers, self._shape)
                actions.sort(key=lambda action: action[0])
        self.schedule = list(actions)

    def execute(self) -> Run:
        names = tuple(self._members)
        for name in names:
            self._create_site(name)
        for name in names:
            self._start_links(name)
        for time, action in self.schedule:
            self._loop.call_at(time, self._perform, action)
        self.run.end = self._shape.faulty + self._shape.calm
        self._loop.run_until(self.run.end)
        for name, members in self._members.items():
            if self._is_running(name):
                known = frozenset(each for each in members.records if each in members)
                self.run.members[name] = known
        return self.run

    def _is_running(self, name: str) -> bool:
        return name in self._sites and self._sites[name].is_running

    def _create_site(self, name: str) -> None:
        self._incarnations[name] += 1
        process = name, self._incarnations[name]
        core = self._variant.create_core(*process, self.run.settings, self._floors[name])
        clock = self._clocks[name]
        site = Site(
            *(process, core, self._codec, self._loop),
            *(lambda: clock.read(self._loop.now), self.run),
            *(self._members[name], self._site_changed),
        )
        self._sites[name] = site
        owner: IOwner = site
        if self._fan_out is not None:
            key = blake2b(repr((process, self._seed)).encode(), digest_size=KEY_BYTES).digest()
            owner = fan_out = FanOut(site, self._fan_out(name, key), self._loop)
            fan_out.send_to_group = self._send_to_group
            self._fan_outs[name] = fan_out
        for peer in self.run.sites:
            if peer != name:
                link = self._link(
                    owner, (name, peer), process[1], self._network, TIMERS, self._keeps_packets
                )
                site.links[peer] = self._network.ends[name, peer] = link
        self.run.lives.append((self._loop.now, process, True))

    def _site_changed(self, site: Site, name: str) -> None:
        """Let a site join or leave, as another one or itself knows it now."""
        now, is_member = self._loop.now, name in site.members
        if is_member and name not in self._members:
            self._members[name] = Members(site.members.records)
            for known in self._members[name].records:
                self.run.joins[name, known] = now
            self._create_site(name)
            self._start_links(name)
        if not is_member and name not in self.run.left:
            self.run.left.add(name)
            if self._is_running(name):
                self.run.lives.append((now, self._sites[name].process, False))
        if is_member:
            self.run.joins.setdefault((site.name, name), now)
            site.links[name].join()
        elif name == site.name:
            self._end_site(site)
        else:
            site.links[name].leave()

    def _is_stopped(self, name: str) -> bool:
        is_known = name in self._sites and name not in self.run.left
        return is_known and not self._sites[name].is_running

    def _end_site(self, site: Site) -> None:
        self._floors[site.name] = site.stop(silently=False)

    def _send_to_group(self, sender: str, datagrams: Sequence[bytes]) -> None:
        """Some datagrams are lost, as are those on a silent path."""
        for name, fan_out in self._fan_outs.items():
            path = self._network.paths.get((sender, name))
            is_deaf = self._group_random.random() < _GROUP_LOSS
            if path is not None and path.is_up and not is_deaf:
                self._loop.call_later(path.draw_delay(), fan_out.receive_from_group, datagrams)

    def _start_links(self, name: str) -> None:
        for link in self._sites[name].links.values():
            link.start()

    def _perform(self, action: Action) -> None:
        now, network = self._loop.now, self._network
        match action:
            case Publish(name, messages, commit, fails):
                if self._is_running(name):
                    self._sites[name].publish(messages, commit, fails=fails)
            case ChangeSites(name, other, is_member):
                if self._is_running(name) and is_member is not (other in self._members[name]):
                    begin = ADMIT if is_member else REMOVE
                    self._sites[name].publish(1, 0.0, payload=begin + other.encode())
            case SetPath(sender, receiver, is_up):
                self._set_path(sender, receiver, is_up)
            case Cut(one, other):
                self.run.breaks.append((now, one, other))
                network.cut(one, other)
            case SetExtraDelay(sender, receiver, seconds):
                network.paths[sender, receiver].extra = seconds
                self.run.slow.append((now, now + 10.0 * bool(seconds), sender, receiver))
            case StepClock(name, microseconds):
                self._clocks[name].step(microseconds)
            case Kill(name, silently) if self._is_running(name):
                self._floors[name] = self._sites[name].stop(silently=silently)
                if name not in self.run.left:
                    self.run.lives.append((now, self._sites[name].process, False))
            case Start(name) if self._is_stopped(name):
                self._create_site(name)
                self._start_links(name)

    def _set_path(self, sender: str, receiver: str, is_up: bool) -> None:
        pair = sender, receiver
        is_calm = self._loop.now >= self._shape.faulty
        count = 0 if is_calm else max(0, self._silences[pair] + (-1 if is_up else 1))
        self._silences[pair] = count
        if self._network.paths[pair].is_up is not (count == 0):
            self.run.paths.append((self._loop.now, sender, receiver, count == 0))
            self._network.set_path(sender, receiver, count == 0)
