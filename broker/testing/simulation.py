"""A small world in virtual time: one whole node on a real log, a network in memory, real clients.

Everything that happens follows from the seed. A node can be killed as by `kill -9`, at any moment
between two turns, and started again on the same folder; its disk can be full; the connection of
each client can be cut.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, cast

import attrs
import lmdb
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock, LoopingCall
from twisted.python.failure import Failure

from broker.client.client import Client
from broker.client.settings import ClientSettings
from broker.config import Settings
from broker.errors import LogUnavailable
from broker.node import CARE_EVERY, PROGRESS_EVERY, Node
from broker.router.outcomes import DeliveryOutcomes
from broker.store.log_file import LogFile
from broker.testing.mortal import MortalClock, MortalLoop, SlowThreads
from broker.testing.network import MemoryNetwork, MemoryPort

#: Where the wall clock of a world stands at its start, in ms since 1970.
BEGINNING = 1_700_000_000_000


@attrs.define
class Disk:
    """What a simulated log lies on."""

    full: bool = False
    """While it is, nothing can be written."""


class SimulatedLogFile(LogFile):
    """A real log on a disk that can be full."""

    disk: Disk

    @contextmanager
    def _writing(self) -> Iterator[lmdb.Transaction]:
        if self.disk.full:
            raise LogUnavailable("the event log can not be written: no space left on device")
        with super()._writing() as txn:
            yield txn


class World:
    """A node, a network and clients, all from one seed; to be closed, or used as a context.

    `thread_delay` is what a commit or a read of the log takes, in seconds. The node listens at an
    address of its own for each client, so that one client's connection can be cut.
    """

    def __init__(
        self,
        seed: int,
        *,
        settings: Settings | None = None,
        latency: float = 0.001,
        jitter: float = 0.002,
        thread_delay: float = 0.004,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = Clock()
        self.disk = Disk()
        self.network = MemoryNetwork(self.clock, seed, latency=latency, jitter=jitter)
        self._clocks: dict[Client, MortalClock] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="xmlbroker-world-")
        self._thread_delay = thread_delay
        self._settings = self._adapt(settings or Settings())
        self._addresses: dict[str, MemoryPort | None] = {}
        self._node_clock = MortalClock(self.clock)
        self._node: Node | None = None
        self._loops: list[LoopingCall] = []
        self.start_node()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all traces."""
        if self._node is not None:
            self.kill_node()
        self._folder.cleanup()

    # ------------------------------------------------------------------ time

    def wall_clock(self) -> int:
        """ms since 1970, in this world."""
        return BEGINNING + int(self.clock.seconds() * 1000)

    def run(self, seconds: float) -> None:
        """Let time pass: whatever is due happens at its own time."""
        clock = self.clock
        end = clock.seconds() + seconds
        while clock.calls and clock.calls[0].getTime() <= end:
            # Set, not added: a sum may fall short of it by a last digit, and for ever.
            clock.rightNow = max(clock.rightNow, clock.calls[0].getTime())
            clock.advance(0.0)
        clock.rightNow = max(clock.rightNow, end)

    def run_until(self, reached: Callable[[], bool], limit: float = 120.0) -> None:
        """Let time pass until `reached`; AssertionError after `limit` seconds."""
        end = self.clock.seconds() + limit
        while not reached():
            assert self.clock.seconds() < end, f"not reached in {limit:g} s (seed {self.seed})"
            self.run(0.05)

    def wait(self, awaitable: Any, limit: float = 60.0) -> Any:
        """The result of a Deferred, with as much time as it takes; its error is raised."""
        results: list[Any] = []
        awaitable.addBoth(results.append)
        self.run_until(lambda: bool(results), limit)
        if isinstance(results[0], Failure):
            results[0].raiseException()
        return results[0]

    # ------------------------------------------------------------------ the node

    @property
    def node(self) -> Node:
        """The node that runs now."""
        assert self._node is not None, "the node is down"
        return self._node

    @property
    def running(self) -> bool:
        """Whether there is a node at the moment."""
        return self._node is not None

    def start_node(self, settings: Settings | None = None) -> Node:
        """Start a node on the folder that the last one left."""
        assert self._node is None, "the node runs already"
        if settings is not None:
            self._settings = self._adapt(settings)
        clock = self._node_clock = MortalClock(self.clock)
        threads = SlowThreads(clock, self.random, self._thread_delay)
        node = self._node = Node(
            self._settings, clock, threads, wall_clock=self.wall_clock, open_file=self._open_file
        )
        node.start()
        for call, every in ((node.progress, PROGRESS_EVERY), (node.care, CARE_EVERY)):
            loop = LoopingCall(call)
            loop.clock = cast(IReactorTime, clock)
            loop.start(every, now=False)
            self._loops.append(loop)
        for address in self._addresses:
            self._listen(address)
        return node

    def kill_node(self) -> None:
        """The end of the node's process: nothing is said, written or cleaned up any more."""
        node, self._node = self.node, None
        self._end_service()
        self._node_clock.die()
        for address in self._addresses:
            self.network.cut(address)
        node.event_log.crash()

    def stop_node(self) -> None:
        """Stop the node in good order."""
        node = self.node
        self._end_service()
        self.wait(Deferred.fromCoroutine(node.stop()))
        # What closing connections still wait for ends with the process.
        self.run(0.1)
        self._node_clock.die()
        self._node = None
        for address in self._addresses:
            self.network.cut(address)

    def _end_service(self) -> None:
        for address, port in self._addresses.items():
            if port is not None:
                port.stop_listening()
                self._addresses[address] = None
        loops, self._loops = self._loops, []
        for loop in loops:
            loop.stop()

    def _adapt(self, settings: Settings) -> Settings:
        data = Path(self._folder.name)
        return attrs.evolve(
            settings,
            node=attrs.evolve(settings.node, name="simulated", data=data),
            log=attrs.evolve(settings.log, sync=False),
            # Measured in real time: a pause of this machine must not change what happens.
            query=attrs.evolve(settings.query, max_run_time=3600.0),
        )

    def _open_file(self, *args: Any, **named: Any) -> LogFile:
        kind = type("LogFile", (SimulatedLogFile,), {"disk": self.disk})
        file: LogFile = kind(*args, **named)
        return file

    # ------------------------------------------------------------------ clients

    def address(self, name: str) -> str:
        """Where the client of this name finds the node."""
        address = f"node/{name}"
        if address not in self._addresses:
            self._addresses[address] = None
            if self._node is not None:
                self._listen(address)
        return address

    def client(self, client_id: str, *, incarnation: int = 1, **settings: Any) -> Client:
        """One process of a client, which has begun to connect."""
        own = ClientSettings(
            client_id=client_id,
            incarnation=incarnation,
            wall_clock=self.wall_clock,
            random=Random(self.random.random()),
            **{"longest_wait": 2.0, **settings},
        )
        clock = MortalClock(self.clock)
        loop = MortalLoop(clock, self.network)
        client = Client(loop, [self.address(client_id)], own)
        self._clocks[client] = clock
        client.start()
        return client

    def cut(self, client_id: str) -> None:
        """Break the connection of a client; what is under way on it is lost."""
        self.network.cut(self.address(client_id))

    def kill_client(self, client: Client) -> None:
        """The end of a client's process: nothing more is said, and its connection breaks."""
        self._clocks.pop(client).die()
        self.cut(client.client_id)

    def _listen(self, address: str) -> None:
        node = self.node
        self._addresses[address] = self.network.listen(address, node.connected)

    # ------------------------------------------------------------------ the sums

    def check_outcomes(self) -> None:
        """AssertionError unless every event has exactly one outcome (T40, A22)."""
        node = self.node
        taken = node.input.outcomes
        sum_taken = taken.accepted + taken.duplicate + taken.not_taken + taken.refused.total()
        assert taken.received == sum_taken, f"{taken} (seed {self.seed})"
        _check_sum(node.output.ended, 0, f"ended subscriptions, seed {self.seed}")
        for link in node.output.links:
            link.settle()
            for feed in link.feeds:
                where = f"subscription {feed.number}, seed {self.seed}"
                _check_sum(feed.outcomes, link.waiting_for(feed), where)

    def left_over(self) -> list[str]:
        """Timers that are none of the node's regular ones: none, when everybody has gone."""
        regular = {id(loop.call) for loop in self._loops}
        left = []
        for call in self.clock.getDelayedCalls():
            clock = getattr(call.func, "__self__", None)  # type: ignore[attr-defined]
            dead = isinstance(clock, MortalClock) and not clock.alive
            if not dead and id(call) not in regular:
                left.append(str(call))
        return left


def _check_sum(outcomes: DeliveryOutcomes, queued: int, where: str) -> None:
    parts = outcomes.delivered + outcomes.filtered + outcomes.denied + outcomes.dropped + queued
    assert outcomes.seen == parts, f"{outcomes}, {queued} queued ({where})"
    assert min(attrs.astuple(outcomes)) >= 0, f"{outcomes} ({where})"
