"""Much goes wrong in a network for a while; in the end everybody has what it is to have.

Everything follows from the seed and from what may happen (`Dangers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from random import Random
from unittest.mock import patch

from broker.client.client import Client
from broker.event.place import Place
from broker.testing.guarantees import check, report
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.chaos.dangers import ArchiveFaults, Dangers
from tests.simulation.network.topologies import SHAPES, Edge, Trouble
from tests.simulation.network.watching import (
    INTERESTS,
    Publisher,
    Reader,
    Truths,
    truths,
)
from tests.simulation.observing import Observer
from tests.simulation.watching import STREAMS

ALTITUDES = (7, 100, 250, 600, 1000)
HOUR_MS = 3_600_000
TURNS = 150
#: The turn at which a node joins, if one does.
JOINS_AT = 50
#: Seconds between two looks at the stopwatch; and on a busy machine, where so many looks in a
#: hundred are late, at most.
_A_LOOK = 1e-5
_LATE_IN_A_HUNDRED = 2
_LATEST = 0.02
#: Seconds after the trouble in which all comes that is to come, whatever rests had begun before.
LONGEST_RECOVERY = 180.0


@contextmanager
def no_chance(seed: int, *, busy: bool) -> Iterator[None]:
    """What nobody can guess elsewhere (names of origins, nonces) follows from the seed, too; and
    what matching takes, by which nodes share their time out, is so much at each look."""
    draw = Random(f"nonces {seed}").randbytes
    looks = accumulate(_looks(Random(f"busy {seed}") if busy else None))
    with (
        patch("os.urandom", draw),
        patch("secrets.token_bytes", draw),
        patch("secrets.token_hex", lambda size: draw(size).hex()),
        patch("time.perf_counter", lambda: next(looks)),
        patch("broker.archive.journal_writer.SNAPSHOT_EVERY", 8),
    ):
        yield


def _looks(busy: Random | None) -> Iterator[float]:
    while True:
        late = busy is not None and busy.randrange(100) < _LATE_IN_A_HUNDRED
        yield busy.uniform(0.0, _LATEST) if busy is not None and late else _A_LOOK


class Follower:
    """One subscription, over all processes of its client."""

    def __init__(self, world: NetworkWorld, name: str, interest: int, durable: str) -> None:
        self.name = name
        self._world = world
        self._interest = INTERESTS[interest]
        self._durable = durable
        self._client: Client | None = None
        self.readers: list[Reader] = []
        self.come()

    @property
    def moves(self) -> bool:
        """Whether a new process goes on where the one before ended."""
        return bool(self._durable)

    def come(self) -> None:
        """A new process, at any node that runs; it knows all of them."""
        world = self._world
        first = world.random.choice(world.running)
        nodes = [first, *(name for name in world.names if name != first)]
        number = len(self.readers) + 1
        self._client = world.client(self.name, *nodes, incarnation=number)
        reader = Reader(world, self._client, self._interest, durable=self._durable)
        self.readers.append(reader)

    def go(self) -> bool:
        """The process ends, if it has begun to get events."""
        if self._client is None or not self.readers[-1].flowing:
            return False
        # What was read is said to be processed with the next look, and that takes a moment.
        for _ in range(10):
            self.read()
            self._world.run(0.1)
        self.read()
        self._world.kill_client(self._client)
        self._client = None
        return True

    def read(self) -> None:
        """Take what has come."""
        self.readers[-1].read()


class Chaos:
    """One run."""

    def __init__(self, seed: int, dangers: Dangers) -> None:
        self._dangers = dangers
        self._world = NetworkWorld(seed, archived=dangers.archived, settings=dangers.settings)
        self._random = Random(f"chaos {seed}")
        self._observer = Observer(self._world, "neighbour" if dangers.guarded else "node")
        self._seen: Truths = {}
        self._disk_was_lost = False
        self._faults = self._archive_faults()
        self.log: list[str] = []
        """What went wrong, and when."""

    def run(self) -> None:
        """AssertionError with a report if a guarantee was broken."""
        with no_chance(self._world.seed, busy=self._dangers.busy), self._world as world:
            edges = SHAPES[world.seed % len(SHAPES)](world, world.random.randint(3, 6))
            world.run(4.0)
            names = world.names
            publishers = [
                self._publisher(name) for name in self._random.sample(names, min(3, len(names)))
            ]
            followers = [
                Follower(world, f"f{number}", number, self._random.choice(("", "d")))
                for number in range(len(INTERESTS))
            ]
            world.run_until(lambda: all(each.readers[0].flowing for each in followers))
            trouble = Trouble(world, edges, [])
            for turn in range(TURNS):
                self._publish(publishers)
                if turn == JOINS_AT and self._dangers.joining:
                    publishers.append(self._join(edges))
                if self._random.random() < 0.3:
                    self._strike(trouble, followers)
                if self._faults is not None:
                    self._tear(self._faults)
                for each in followers:
                    each.read()
                world.run(self._random.choice((0.0, 0.01, 0.1, 0.5)))
            trouble.end()
            if self._faults is not None:
                self._faults.restore_late(at_once=True)
            for name in world.names:
                if name not in world.running:
                    world.start(name)
            self._settle(publishers, followers)
            self._check(followers)
            world.check_outcomes()

    def _check(self, followers: list[Follower]) -> None:
        observer, world = self._observer, self._world
        # A killed node's disk may be gone, with events that no other node shows as an origin's.
        observer.logs(truths(world, self._seen), complete=not self._dangers.short)
        for follower in followers:
            observer.subscriber(follower.name, follower.readers)
        violations = check(observer.seen, self._dangers.allowances(self._archived()))
        assert not violations, report(str(world.seed), observer.seen, violations)

    def _archived(self) -> Callable[[Place], bool]:
        """Whether the archive has the event at a place."""
        archive = self._world.archive
        covered = {} if archive is None else archive.open().state().covered
        return lambda place: any(
            after < place.mark <= upto for after, upto in covered.get(place.origin, ())
        )

    def _publisher(self, name: str) -> Publisher:
        client = self._world.client(f"p-{name}", *self._nodes_of_publisher(name))
        return Publisher(self._world, self._observer.watch(client))

    def _nodes_of_publisher(self, name: str) -> list[str]:
        others = [other for other in self._world.names if other != name]
        return [name, *others] if self._dangers.wandering else [name]

    def _join(self, edges: list[Edge]) -> Publisher:
        """A node joins, and somebody publishes there before it is linked to others."""
        world, name = self._world, "new"
        beside = self._random.choice(world.names)
        self._note(f"{name} joins {beside}")
        cluster = world.cluster_of(beside)
        edges.append((beside, name))
        if self._random.random() < 0.5:
            world.add(name, cluster, join=[beside])
        else:
            world.add(name, f"{cluster}-new", gateways=[beside])
        return self._publisher(name)

    def _publish(self, publishers: list[Publisher]) -> None:
        random = self._random
        for publisher in publishers:
            if random.random() < 0.5:
                size = random.randint(0, self._dangers.size)
                publisher.publish(random.choice(STREAMS), random.choice(ALTITUDES), size)

    def _settle(self, publishers: list[Publisher], followers: list[Follower]) -> None:
        world = self._world
        world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
        until = world.clock.seconds() + LONGEST_RECOVERY
        while world.clock.seconds() < until:
            for each in followers:
                each.read()
            world.run(0.5)

    def _archive_faults(self) -> ArchiveFaults | None:
        archive, world = self._world.archive, self._world
        if archive is None or not self._dangers.torn:
            return None
        random = Random(f"archive {world.seed}")
        return ArchiveFaults(Path(archive.uri), random, world.clock.seconds)

    # ------------------------------------------------------------------ what happens

    def _tear(self, faults: ArchiveFaults) -> None:
        """Damage the archive, or kill an archiver, now and then."""
        faults.restore_late()
        what = faults.random.randrange(12)
        if what == 0:
            assert self._world.archive is not None
            if self._world.archive.kill_archiver(faults.random):
                self._note("kill an archiver")
        elif what < 3 and (done := faults.strike()):
            self._note(done)
        elif what == 3:
            assert self._world.archive is not None
            self._note(self._world.archive.maintenance.run(faults.random))

    def _strike(self, trouble: Trouble, followers: list[Follower]) -> None:
        what = self._random.randrange(10)
        if what < 5:
            before = len(trouble.log)
            trouble.strike()
            self.log += trouble.log[before:]
        elif what < 8:
            self._kill_or_start()
        elif what == 8 and self._dangers.moving:
            follower = self._random.choice(followers)
            if follower.moves and follower.go():
                self._world.run(self._random.choice((0.0, 1.0, 10.0)))
                self._note(f"{follower.name} comes back")
                follower.come()
        elif what == 9 and self._dangers.clocks:
            name = self._random.choice(self._world.names)
            self._note(f"the clock of {name}")
            self._world.set_clock_offset(name, self._random.randrange(-3 * HOUR_MS, 3 * HOUR_MS))

    def _kill_or_start(self) -> None:
        world = self._world
        name = self._random.choice(world.names)
        if name not in world.running:
            self._note(f"start {name}")
            world.start(name)
        elif len(world.running) > 1:
            # Afterwards it may be too late to see what it had.
            self._seen = truths(world, self._seen)
            self._note(f"kill {name}")
            world.kill(name)
            if self._dangers.disks and not self._disk_was_lost:
                self._disk_was_lost = True
                self._note(f"the disk of {name}")
                world.lose_disk(name)

    def _note(self, what: str) -> None:
        self.log.append(f"{self._world.clock.seconds():.3f} {what}")
