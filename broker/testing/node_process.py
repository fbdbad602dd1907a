"""Processes of one whole node on a real log, in virtual time.

A process can end as by `kill -9` between two reactor turns, and another one can start on the same
folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, cast

import attrs
import lmdb
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall

from broker.cluster.membership import Dialler
from broker.config import Settings
from broker.config.stacks import FindPlugins, find_plugins_of
from broker.errors import LogUnavailable, NotConnected
from broker.ingest.outcomes import DeliveryOutcomes
from broker.log.log_file import LogFile
from broker.node.node import MAINTENANCE_INTERVAL, TICK_INTERVAL, Node
from broker.recovery.archive_access import ArchiveAccess
from broker.streams.link_sockets import LinkSockets
from broker.testing.datagram_network import DatagramNetwork, SharedMemorySocket
from broker.testing.killable import DelayedThreads, KillableCall, KillableClock
from broker.testing.memory_connections import MemoryConnections, link_place
from broker.testing.memory_group import MemoryGroupChannel
from broker.testing.memory_network import MemoryNetwork, MemoryPort
from broker.testing.virtual_time import VirtualTime
from broker.transport.socket import ISocketChannel
from broker.transport.stacks import GroupAddress, Transport

#: Returns a node's handler of connections to one address.
ConnectionAcceptor = Callable[[Node], Callable[[Any], None]]


@attrs.define
class SimulatedDisk:
    is_full: bool = False
    """If true, writes fail."""


class SimulatedLogFile(LogFile):
    disk: SimulatedDisk

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        if self.disk.is_full:
            raise LogUnavailable("the event log can not be written: no space left on device")
        with super()._writing() as txn:
            yield txn


class NodeProcess:
    """Newest process of one node."""

    def __init__(
        self,
        time: VirtualTime,
        network: MemoryNetwork,
        settings: Settings,
        *,
        thread_delay: float,
        dialler: Callable[[KillableClock], Dialler] | None = None,
        archive: Callable[[NodeProcess], ArchiveAccess] | None = None,
        datagrams: DatagramNetwork | None = None,
        find_plugins: FindPlugins = find_plugins_of,
    ) -> None:
        """`settings` name the folder. A log commit or read takes `thread_delay` seconds. `dialler`
        and `archive` make each process's dialler and archive access. `datagrams` connects the
        links of its stream transports, which `find_plugins` returns."""
        self.settings = settings
        self.disk = SimulatedDisk()
        self.clock = KillableClock(time.clock)
        """Of the newest process."""
        self.periodic_calls: list[LoopingCall] = []
        self._time = time
        self._network = network
        self._thread_delay = thread_delay
        self._dialler = dialler
        self._archive = archive
        self._datagrams = datagrams
        self._find_plugins = find_plugins
        self._sockets: list[SharedMemorySocket] = []
        self._connections: list[MemoryConnections] = []
        self._groups: list[MemoryGroupChannel] = []
        self.log_file: LogFile
        self.clock_offset_ms = 0
        """Deviation of the wall clock."""
        self.is_stopping = False
        """True during an orderly stop: the log may be closed already."""
        self._node: Node | None = None
        self._addresses: dict[str, ConnectionAcceptor] = {}
        self._ports: list[MemoryPort] = []

    @property
    def node(self) -> Node:
        assert self._node is not None, "the node is down"
        return self._node

    @property
    def is_running(self) -> bool:
        return self._node is not None

    def start(self) -> Node:
        assert self._node is None, "the node runs already"
        time = self._time
        clock = self.clock = KillableClock(time.clock)
        node = self._node = Node(
            self.settings,
            clock,
            DelayedThreads(clock, time.random, self._thread_delay),
            wall_clock=lambda: time.wall_clock() + self.clock_offset_ms,
            open_file=self._open_file,
            dialler=self._dialler(clock) if self._dialler else None,
            random=Random(time.random.random()) if self._dialler else None,
            archive=None if self._archive is None else self._archive(self),
            link_sockets=LinkSockets(
                *(self._open_datagrams, self._open_connections, self._open_group),
                self._find_addresses,
            ),
            find_plugins=self._find_plugins,
        )
        node.start()
        for call, every in (
            (node.tick, TICK_INTERVAL),
            (node.run_maintenance, MAINTENANCE_INTERVAL),
        ):
            loop = LoopingCall(call)
            loop.clock = cast(IReactorTime, clock)
            loop.start(every, now=False)
            self.periodic_calls.append(loop)
        for address, taker in self._addresses.items():
            self._ports.append(self._network.listen(address, taker(node)))
        return node

    def kill(self) -> None:
        """End the process as by `kill -9`."""
        node, self._node = self.node, None
        self._stop_service()
        self.clock.kill()
        self._cut_connections()
        node.event_log.crash()

    def stop(self) -> None:
        node = self.node
        self._stop_service()
        self.is_stopping = True
        self._time.wait(Deferred.fromCoroutine(node.stop()))
        # Connections that still close end with the process.
        self._time.run(0.1)
        self.clock.kill()
        self._node = None
        self.is_stopping = False
        self._cut_connections()

    def listen(self, address: str, taker: ConnectionAcceptor) -> None:
        """Accept connections in this process and in later ones."""
        if address not in self._addresses:
            self._addresses[address] = taker
            if self._node is not None:
                self._ports.append(self._network.listen(address, taker(self._node)))

    @property
    def datagram_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the links of its stream transports."""
        return [each.address for each in self._sockets]

    @property
    def connection_addresses(self) -> list[tuple[str, int]]:
        """Addresses of the links of its stream transports over connections."""
        return [each.address for each in self._connections]

    def check_outcomes(self) -> None:
        """AssertionError unless every event has exactly one outcome (T40, A22)."""
        node, seed = self.node, self._time.seed
        where = f"{self.settings.node.name}, seed {seed}"
        taken = node.input.outcomes
        sum_taken = taken.accepted + taken.duplicate + taken.not_taken + taken.refused.total()
        assert taken.received == sum_taken, f"{taken} ({where})"
        _check_sum(node.output.ended_outcomes, 0, f"ended subscriptions, {where}")
        for link in node.output.session_deliveries:
            link.update_outcomes()
            for feed in link.feeds:
                about = f"subscription {feed.number}, {where}"
                _check_sum(feed.outcomes, link.count_queued_for(feed), about)

    def _find_addresses(self, name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
        addresses = None if self._datagrams is None else self._datagrams.dns.get(name)
        if addresses is None:
            return fail(NotConnected(f"{name}: DNS does not answer"))
        return succeed([(host, port) for host in addresses])

    def _stop_service(self) -> None:
        ports, self._ports = self._ports, []
        for port in ports:
            port.stop_listening()
        sockets, self._sockets = self._sockets, []
        for socket in sockets:
            socket.stop()
        for listening in self._connections:
            listening.stop()
        groups, self._groups = self._groups, []
        for group in groups:
            group.close()
        loops, self.periodic_calls = self.periodic_calls, []
        for loop in loops:
            loop.stop()

    def _cut_connections(self) -> None:
        for address in self._addresses:
            self._network.cut(address)
        listening, self._connections = self._connections, []
        for each in listening:
            self._network.cut_end(link_place(each.address))

    def _open_datagrams(self, host: str, port: int) -> SharedMemorySocket:
        assert self._datagrams is not None, "this simulation has no datagrams"
        self._sockets.append(SharedMemorySocket(self._datagrams, (host, port)))
        return self._sockets[-1]

    def _open_connections(
        self,
        host: str,
        port: int,
        transport: Transport,
        on_connect: Callable[[ISocketChannel], None],
    ) -> MemoryConnections:
        address = host, port
        self._connections.append(MemoryConnections(self._network, self.clock, address, on_connect))
        return self._connections[-1]

    def _open_group(self, group: GroupAddress) -> MemoryGroupChannel:
        assert self._datagrams is not None, "this simulation has no datagrams"
        member = group, self.settings.node.name
        self._groups.append(MemoryGroupChannel(self._datagrams, group, member))
        return self._groups[-1]

    def _open_file(self, *args: Any, **named: Any) -> LogFile:
        kind = type("LogFile", (SimulatedLogFile,), {"disk": self.disk})
        self.log_file = cast(LogFile, kind(*args, **named))
        return self.log_file


def _check_sum(outcomes: DeliveryOutcomes, queued: int, where: str) -> None:
    parts = outcomes.delivered + outcomes.filtered + outcomes.denied + outcomes.dropped + queued
    assert outcomes.seen == parts, f"{outcomes}, {queued} queued ({where})"
    assert min(attrs.astuple(outcomes)) >= 0, f"{outcomes} ({where})"


def adapt_to_virtual_time(settings: Settings) -> Settings:
    """Return settings under which nothing takes, or measures, real time."""
    return attrs.evolve(
        settings,
        log=attrs.evolve(settings.log, sync=False),
        # A pause of the test machine must not change results.
        query=attrs.evolve(settings.query, max_run_time=3600.0),
    )


def find_pending_timers(time: VirtualTime, loops: list[LoopingCall]) -> list[str]:
    """Return the timers that are not periodic: none after all clients have left."""
    calls: list[Any] = [loop.call for loop in loops]
    regular = {id(each.call) for each in calls if isinstance(each, KillableCall)}
    left = []
    for call in time.clock.getDelayedCalls():
        clock = getattr(call.func, "__self__", None)  # type: ignore[attr-defined]
        dead = isinstance(clock, KillableClock) and not clock.is_alive
        if not dead and id(call) not in regular:
            left.append(str(call))
    return left


def find_timers_left(time: VirtualTime) -> list[str]:
    """Return the timers of processes that have ended: none after an orderly stop."""
    clocks = [
        (call, getattr(call.func, "__self__", None))  # type: ignore[attr-defined]
        for call in time.clock.getDelayedCalls()
    ]
    return [
        str(call)
        for call, clock in clocks
        if isinstance(clock, KillableClock) and not clock.is_alive
    ]
