"""Sites of a group without nodes, with clients, over a memory network in virtual time."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, NoReturn, cast

from twisted.internet.task import Clock

from broker.event.site_notice import MissingMessages, SiteStatus
from broker.streams.link_sockets import LinkSockets
from broker.streams.messaging import ClientAddress, Delivery, IGroupClient, Item
from broker.testing.killable import KillableClock
from broker.testing.memory_connections import MemoryConnections, link_place
from broker.testing.memory_network import MemoryNetwork
from broker.testing.order import run as record
from broker.testing.order.properties.global_order import global_order, places
from broker.testing.order.properties.reliability import fifo, reliability
from broker.testing.order.simulation import TIMERS
from broker.testing.order.timeline import Timeline
from broker.transport.message import Message, Outcome
from broker.transport.order import MessageId, OrderSettings, Place
from broker.transport.view import LinkState
from plugins.rcm.group_site import create_site
from plugins.rcm.options import RcmOptions
from plugins.rcm.settings import RcmLinkSettings

PORT = 9000
CLIENTS = ("anna", "ben")
#: Seconds. Some outages are longer than `suspect`.
LINKS = RcmLinkSettings(suspect=12.0)
#: Messages with one place in the order, in the record.
_PARTS = 1_000


class SimulatedGroup:
    """The record has what a client of each site gets that sends nothing."""

    def __init__(self, folder: Path, names: str = "abc", *, order: str = "hybrid", seed: int = 0):
        self.clock = Clock()
        self.random = Random(seed)
        self.network = MemoryNetwork(self.clock, seed, latency=0.01, jitter=0.01)
        self.hosts = {name: f"127.0.0.{number}" for number, name in enumerate(names, 1)}
        self.options = RcmOptions(
            sites={name: f"tcp:host={host}:port={PORT}" for name, host in self.hosts.items()},
            order=order,
        )
        self.folder = folder
        self.run = record.Run(order, tuple(names), OrderSettings(), TIMERS, delay=0.02, skew=0.0)
        self.sent: dict[bytes, tuple[float, Message]] = {}
        """Times and messages by payload."""
        self.got: list[tuple[record.Process, float, Delivery]] = []
        self.processes = {name: Process(self, name) for name in names}

    def options_of(self, name: str) -> RcmOptions:
        return self.options

    def advance(self, seconds: float) -> None:
        end = self.clock.seconds() + seconds
        while self.clock.calls and self.clock.calls[0].getTime() <= end:
            self.clock.advance(max(0.0, self.clock.calls[0].getTime() - self.clock.seconds()))
        self.clock.advance(max(0.0, end - self.clock.seconds()))
        self.run.end = end

    def silence(self, one: str, other: str, *, is_silent: bool = True) -> None:
        """Silence both directions between two sites, or end that."""
        change = self.network.hold if is_silent else self.network.release
        here, there = (link_place((self.hosts[each], PORT)) for each in (one, other))
        for path in (self.network.path(here, there), self.network.path(there, here)):
            for to_listener in (False, True):
                change(path, to_listener=to_listener)

    def restart(self, name: str, away: float) -> None:
        self.processes[name].kill()
        self.advance(away)
        self.processes[name] = Process(self, name)

    def check(self, *, has_all: bool) -> None:
        """Check properties 2 to 4. `has_all`: all messages were for all sites, so that the record
        has the neighbours of late ones."""
        self._complete_record()
        timeline = Timeline(self.run)
        rules = [reliability, fifo, global_order, *([places] if has_all else [])]
        found = [violation for rule in rules for violation in rule(self.run, timeline)]
        assert not found, found[:5]

    def _complete_record(self) -> None:
        """Give each message a number of its own, also if it shared its place."""
        run = self.run
        run.deliveries.clear()
        last_parts = {(process, each.id): each.part for process, _, each in self.got}
        for process, time, each in self.got:
            id, late = _part_id(each.id, each.part), each.late
            if late is not None:
                before, after = late.before, late.after
                if each.part:
                    before = _part_id(each.id, each.part - 1)
                elif before is not None:
                    before = _part_id(before, last_parts.get((process, before), 0))
                late = Place(before, None if after is None else _part_id(after, 0))
            run.deliveries[process].append(record.Delivery(time, id, each.stamp, late))
            sent_at, message = self.sent[each.message.payload]
            outcomes = message.outcomes.items()
            accepted = frozenset(str(site) for site, each in outcomes if each is Outcome.SENT)
            run.sent.setdefault(id, record.Sent(sent_at, accepted))
        # Those that nobody has got were sent by processes that were killed.
        unknown = self.sent.keys() - {each.message.payload for _, _, each in self.got}
        ended = {name for _, (name, _), is_start in run.lives if not is_start}
        assert {cast(ClientAddress, self.sent[each][1].source).site for each in unknown} <= ended


class Process:
    """One process of a site, with its clients."""

    def __init__(self, group: SimulatedGroup, name: str) -> None:
        self._group = group
        self.name = name
        self._clock = KillableClock(group.clock)
        self.site = create_site(
            *(name, group.options_of(name), group.folder / name, self._clock),
            link_options=LINKS,
            sockets=LinkSockets(no_datagrams, self.open_sockets),
            wall_clock=lambda: 10**9 + round(group.clock.seconds() * 1000),
        )
        self._states: dict[str, str] = {}
        self.items: dict[str, list[Item]] = {client: [] for client in CLIENTS}
        self.clients: dict[str, IGroupClient] = {}
        self.site.listen()
        self.process = name, self.site.incarnation
        group.run.lives.append((group.clock.seconds(), self.process, True))
        self.site.start()
        for client in CLIENTS:
            self.clients[client] = self.site.open_client(client, self.items[client].append)
        self.site.open_client("record", self._record)

    def send(self, client: str, payload: bytes, *destinations: str | ClientAddress) -> Message:
        """Send to these, or to all sites, and put the message on record."""
        source = self.clients[client]
        message = Message(payload, None, destinations or source.sites)
        source.send(message)
        self._group.sent[payload] = self._group.clock.seconds(), message
        return message

    def kill(self) -> None:
        self._clock.kill()
        self._sockets.stop()
        self._group.network.cut_end(link_place(self._sockets.address))
        self._group.run.lives.append((self._group.clock.seconds(), self.process, False))

    def open_sockets(self, host: str, port: int, _: object, on_connect: Any) -> MemoryConnections:
        sockets = MemoryConnections(self._group.network, self._clock, (host, port), on_connect)
        self._sockets = sockets
        return sockets

    def _record(self, item: Item) -> None:
        run, now = self._group.run, self._group.clock.seconds()
        match item:
            case Delivery():
                # No live message comes from a site that is disconnected (R26).
                is_apart = self._states.get(item.id.site) == "disconnected"
                assert item.is_recovered is (is_apart and item.id.site != self.name)
                self._group.got.append((self.process, now, item))
            case SiteStatus(_, site, state, reason):
                self._states[site] = state
                position = sum(process == self.process for process, *_ in self._group.got)
                status = record.Status(now, self.process, site, LinkState(state), reason, position)
                run.statuses.append(status)
            case MissingMessages(_, site, incarnation, first, last):
                sender, numbers = (site, incarnation), (first * _PARTS, (last + 1) * _PARTS - 1)
                run.missing.append(record.Missing(now, self.process, sender, *numbers))


def _part_id(id: MessageId, part: int) -> MessageId:
    return id._replace(number=id.number * _PARTS + part)


def no_datagrams(host: str, port: int) -> NoReturn:
    raise AssertionError
