"""Nodes with publishers and subscribers, one of whose streams a transport under test carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.client.received import Start
from broker.config.stacks import DEFAULT_STACK, Plugins, StackInstance
from broker.event.envelope import SecurityLevel
from broker.event.flow import make_flow
from broker.event.place import Mark
from broker.testing.flights import Interest
from broker.testing.guarantees import check, report
from broker.testing.observer import Observer
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import LogEntries, Reader, name_of, read, read_logs

#: Streams that the transport carries, one of them, and one that the default stack carries.
PATTERN, CARRIED, OTHER = "radar.>", "radar.zny", "asdi.zny"
EVERYTHING = Interest(">", "true()", lambda stream, altitude: True)
#: Name of the instance under test.
INSTANCE = "tested"
#: Nodes of the first cluster; further ones are in a second cluster.
CLUSTER_NODES = 5
ALTITUDES = (0, 1, 2)


#: Interest in the carried streams alone.
CARRIED_ONLY = Interest(PATTERN, "true()", lambda stream, altitude: stream == CARRIED)


def at_altitude(altitude: int, pattern: str = ">") -> Interest:
    query = f"/flight/flightleg/altitude = {altitude}"
    streams = (CARRIED, OTHER) if pattern == ">" else (CARRIED,)
    return Interest(pattern, query, lambda stream, each: each == altitude and stream in streams)


class TransportNetwork:
    """Nodes `n0`, `n1`, ..., each with an instance of the transport."""

    def __init__(
        self,
        world: NetworkWorld,
        plugins: Plugins,
        make_stack: Callable[[int], StackInstance],
        *,
        is_default: bool = False,
    ) -> None:
        """`make_stack` returns the instance `INSTANCE` of the node with a number. With
        `is_default` the default stack is tested, which carries all streams."""
        self.world = world
        self.observer = Observer(world)
        self.publishers: list[Publisher] = []
        self.readers: dict[str, list[Reader]] = {}
        """Processes of each client that subscribes."""
        self.plugins = plugins
        self.make_stack = make_stack
        self.is_default = is_default
        self._stopped: LogEntries = {}
        if not self.is_default:
            world.plugins[INSTANCE] = plugins

    # ------------------------------------------------------------------ nodes

    def add_nodes(self, count: int, *, is_carried: bool = True) -> None:
        world = self.world
        for number in range(count):
            name = f"n{number}"
            place: dict[str, Any] = {"join": world.names[:2]}
            if number >= CLUSTER_NODES:
                near = world.names[CLUSTER_NODES:][:1]
                place = {"join": near} if near else {"gateways": world.names[:2]}
            cluster = "one" if number < CLUSTER_NODES else "two"
            world.add(name, cluster, start=False, **place)
            self.set_carried(name, is_carried)
            world.start(name)
        world.run(4.0 if count <= CLUSTER_NODES else 6.0)

    def set_carried(self, name: str, is_carried: bool) -> None:
        """Let the transport or the default stack carry `PATTERN`, from the next start on."""
        if not self.is_default:
            stack = self.make_stack(int(name[1:]))
            self.world.set_stacks(name, {PATTERN: stack} if is_carried else {})

    def kill(self, name: str) -> None:
        self._stopped = read_logs(self.world, self._stopped)
        self.world.kill(name)

    def state_of(self, name: str) -> dict[str, Any]:
        """Return the snapshot of the tested instance in a node."""
        transports = self.world[name].transports
        assert transports is not None
        instance = DEFAULT_STACK if self.is_default else INSTANCE
        return next(each for each in transports.snapshot() if each["name"] == instance)

    def cut(self, name: str) -> None:
        """Cut a node off from all others, until `heal`."""
        world = self.world
        for other in world.names:
            if other != name:
                world.cut(name, other, refuse=True)
                world.cut_transports(name, other)

    def count_requests(self, name: str) -> int:
        """Return the number of pages that a node has requested from other logs."""
        traffic = self.world.network_of(name).traffic
        assert traffic is not None
        return traffic.receiver.counts.asked

    def cut_datagrams(self, one: str, other: str) -> None:
        """Cut two nodes off from each other, in the transport only."""
        self.world.cut_transports(one, other)

    def heal(self, name: str) -> None:
        self.world.heal_transports()
        for other in self.world.names:
            if other != name:
                self.world.heal(name, other)

    def flow_of(self, name: str) -> str:
        """Return the flow of `CARRIED` events of an origin node."""
        origin = self.world[name].event_log.origin
        return origin if self.is_default else make_flow(origin, PATTERN)

    # ------------------------------------------------------------------ clients

    def add_publisher(self, node: str) -> Publisher:
        client = self.world.client(f"publisher-{len(self.publishers)}", node)
        self.publishers.append(Publisher(self.observer.watch(client)))
        return self.publishers[-1]

    def subscribe(
        self,
        client_id: str,
        node: str,
        interest: Interest = EVERYTHING,
        *,
        durable: str = "",
        start: Start | None = None,
        waits: bool = True,
        mesh_parents: int = 0,
    ) -> Reader:
        """Start the next process of a client; with `mesh_parents` it joins the mesh."""
        processes = self.readers.setdefault(client_id, [])
        client = self.world.client(client_id, node, incarnation=len(processes) + 1)
        reader = Reader(
            *(self.world, client, interest),
            durable=durable,
            start=start,
            mesh_parents=mesh_parents,
        )
        processes.append(reader)
        if waits:
            self.world.run_until(lambda: reader.is_flowing)
        return reader

    def publish(self, rounds: int = 10, *, level: SecurityLevel = SecurityLevel.MED) -> None:
        """Each round has an event of both streams from each publisher."""
        for number in range(rounds):
            for publisher in self.publishers:
                for stream in (CARRIED, OTHER):
                    publisher.publish(stream, number % len(ALTITUDES), level=level)
            self.world.run(self.world.random.choice((0.0, 0.02, 0.1)))

    # ------------------------------------------------------------------ the checks

    def settle(self, limit: float = 60.0) -> None:
        """Wait for all due events, and check the guarantees."""
        world = self.world
        world.run_until(
            lambda: not any(each.client.unacknowledged for each in self.publishers), limit
        )
        last = [processes[-1] for processes in self.readers.values()]
        world.run_until(lambda: all(each.is_flowing or each.error for each in last), limit)
        logs = read_logs(world, self._stopped)
        end = world.clock.seconds() + limit
        while world.clock.seconds() < end and not self._have_all_arrived(logs):
            read(world, *last, seconds=0.5)
        # What comes twice comes soon.
        read(world, *last, seconds=2.0)
        self._check(logs)

    def _have_all_arrived(self, logs: LogEntries) -> bool:
        for first, *others in self.readers.values():
            found = {name_of(event) for each in (first, *others) for event in each.events}
            if not first.expected(logs).keys() <= found:
                return False
        return True

    def _check(self, logs: LogEntries) -> None:
        observer, seed = self.observer, f"{self.world.seed}"
        observer.record_logs(logs)
        observer.seen.subscribers.clear()
        for client_id, processes in self.readers.items():
            observer.add_subscriber(client_id, processes)
            # Each of its logs is there.
            gaps = [gap for each in processes for gap in each.gaps]
            assert not gaps, f"gaps at {client_id}: {gaps} (seed {seed})"
        violations = check(observer.seen)
        assert not violations, report(seed, observer.seen, violations)
        self.world.check_outcomes()

    def check_states(self, names: Sequence[str] = ()) -> None:
        """Check that no instance has stopped with an error."""
        for name in names or self.world.running:
            error = self.state_of(name)["error"]
            assert error == "", f"{name}: {error} (seed {self.world.seed})"

    def check_marks(self, reader: Reader, origin: str) -> None:
        """Check that all flows of an origin are processed up to the end of its log."""
        assert reader.subscription is not None
        marks = reader.subscription.position.marks
        end = self.world[origin].event_log.own_end
        flows = {self.world[origin].event_log.origin, self.flow_of(origin)}
        found: dict[str, Mark | None] = {flow: marks.get(flow) for flow in flows}
        assert set(found.values()) == {end}, f"{found}, not {end} (seed {self.world.seed})"
