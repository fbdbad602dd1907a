"""Routers of a mesh in virtual time, and the checks of what they deliver."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random

import attrs

from broker.errors import BadQuery
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.streams.contract import CarriedEvent, CarriedInterest, FlowBatch
from broker.streams.ticket import ClientTicket
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork, MemoryDatagramSocket
from broker.testing.killable import KillableClock
from broker.testing.virtual_time import VirtualTime
from broker.transport.deadline_timer import DeadlineTimer
from plugins.dcp.control import to_query
from plugins.dcp.mesh.leaf_gate import TicketRules
from plugins.dcp.router import Router
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh_groups import MeshGroups
from tests.simulation.dcp.published_flow import PublishedFlow

PATTERN = "asdi.>"
EVERYTHING = "true()"


def matches(query: str, an: int) -> bool:
    """Return whether an event matches `AN mod N = R`; `true()`: each does."""
    if query == EVERYTHING:
        return True
    _, _, number, _, remainder = query.split()
    return an % int(number) == int(remainder)


def modulo(number: int, remainder: int) -> CarriedInterest:
    return CarriedInterest(StreamPattern.parse(PATTERN), f"AN mod {number} = {remainder}", {})


ALL = CarriedInterest(StreamPattern.parse(PATTERN), EVERYTHING, {})


@attrs.define
class Subscription:
    """Interest of a node's subscription."""

    query: str
    start: Mapping[str, Mark] | None = None
    """Behind these marks all its events come; None: it is not active."""
    was_active: bool = False


@attrs.define
class Gap:
    node: str
    flow: str
    after: Mark
    upto: Mark
    time: float


class Mesh:
    """A mesh with one network of datagrams, and the events that its roots publish."""

    def __init__(
        self, seed: int, settings: DcpSettings, faults: DatagramFaults, roots: Sequence[str]
    ) -> None:
        self.time = VirtualTime(seed)
        self.random = Random(f"mesh {seed}")
        self.settings = settings
        self.datagrams = DatagramNetwork(self.time.clock, seed, faults)
        self.nodes: dict[str, MeshNode] = {}
        self.roots = roots
        self.published: dict[str, PublishedFlow] = {}
        self.ends: dict[str, Mark] = {}
        self.gaps: list[Gap] = []
        self.withheld: set[tuple[str, Mark]] = set()
        """Events that no root has: each is a gap."""
        self.violations: list[str] = []
        self.latencies: list[float] = []
        self._feeds: dict[tuple[str, str], list[FlowBatch]] = {}
        self.root_skew = 0.0
        """Roots get events by so many seconds apart."""
        self.on_change: Callable[[MeshNode], object] = lambda node: None
        """Called after each step of a live node."""

    @property
    def now(self) -> float:
        return self.time.clock.seconds()

    def add_root(self, name: str, **changes: object) -> MeshNode:
        assert name in self.roots
        return self._add(name, is_root=True, **changes)

    def add(self, name: str, **changes: object) -> MeshNode:
        """Add a node, whose settings may differ."""
        return self._add(name, is_root=False, **changes)

    def _add(self, name: str, *, is_root: bool, **changes: object) -> MeshNode:
        settings = attrs.evolve(self.settings, **changes)  # type: ignore[arg-type]
        node = self.nodes[name] = MeshNode(self, name, settings, is_root=is_root)
        return node

    @property
    def live(self) -> list[MeshNode]:
        return [node for node in self.nodes.values() if node.is_alive]

    def run(self, seconds: float) -> None:
        self.time.run(seconds)

    def kill(self, name: str) -> None:
        self.nodes[name].kill()

    # ------------------------------------------------------------------ events

    def publish(
        self, flow: str, epoch: int, ans: Sequence[int], size: int = 40, *, withheld: bool = False
    ) -> None:
        """Let all roots have these events of a flow, perhaps not at once. One that is `withheld`
        from the mesh, the first, is missing there."""
        events = []
        known = self.published.setdefault(flow, PublishedFlow())
        for an in ans:
            document = f"{flow}:{epoch}:{an};".encode().ljust(size, b".")
            events.append(CarriedEvent((epoch, an), b"record", document))
            known.add((epoch, an), document, self.now)
        after = self.ends.get(flow, (0, 0))
        upto = epoch, ans[-1]
        self.ends[flow] = upto
        if withheld and len(events) > 1:
            self.withheld.add((flow, events[0].mark))
            after = events.pop(0).mark
        batch = FlowBatch(flow, "/origin", after, upto, events)
        for name in self.roots:
            # A later batch may begin behind the end of the one before.
            waiting = self._feeds.setdefault((name, flow), [])
            waiting.append(batch)
            delay = self.random.uniform(0.0, self.root_skew)
            self.time.clock.callLater(delay, self._feed, name, flow)

    def _feed(self, name: str, flow: str) -> None:
        """Give a root what waits, in batches of its own."""
        waiting = self._feeds[name, flow]
        if not waiting:
            return
        count = 1
        most = self.random.randint(1, len(waiting))
        while count < most and waiting[count - 1].upto == waiting[count].after:
            count += 1
        taken, waiting[:count] = waiting[:count], []
        events = [event for batch in taken for event in batch.events]
        batch = FlowBatch(flow, "/origin", taken[0].after, taken[-1].upto, events)
        node = self.nodes[name]
        if node.is_alive:
            node.router.publish(batch)
            node.changed()
        if waiting:
            self.time.clock.callLater(0.001, self._feed, name, flow)

    # ------------------------------------------------------------------ checks

    def check(self, node: MeshNode, batch: FlowBatch) -> None:
        """Check a delivered batch: its claim, and its sequence."""
        flow = batch.flow
        if batch.is_late:
            # Parents may send more than is wanted.
            late = [each.mark for each in batch.events if node.must_get(flow, each.mark)]
            self.violations += [f"{node.name} {flow}: {mark} is late" for mark in late]
            return
        position = node.positions.get(flow)
        marks = [event.mark for event in batch.events]
        where = f"{node.name} {flow} ({batch.after}, {batch.upto}]"
        if marks != sorted(set(marks)) or any(
            not batch.after < mark <= batch.upto for mark in marks
        ):
            self.violations.append(f"{where}: events {marks}")
        if position is None or batch.after == position:
            node.positions[flow] = batch.upto
        elif batch.after > position:
            self.gaps.append(Gap(node.name, flow, position, batch.after, self.now))
            node.positions[flow] = batch.upto
        elif not self._fill_gap(node.name, flow, batch):
            self.violations.append(f"{where}: begins before the position {position}")
        truth = self.published.get(flow, PublishedFlow())
        for event in batch.events:
            document, published_at = truth.events.get(event.mark, (None, 0.0))
            if document != event.document:
                self.violations.append(f"{where}: another document for {event.mark}")
            elif position is not None:
                self.latencies.append(self.now - published_at)
        node.received += len(batch.events)
        node.dropped += sum(each.events for each in batch.dropped)
        if not batch.dropped:
            came = set(marks)
            for mark in truth.between(batch.after, batch.upto):
                if mark not in came and node.must_get(flow, mark):
                    self.violations.append(f"{where}: {mark} is missing")

    def _fill_gap(self, node: str, flow: str, batch: FlowBatch) -> bool:
        """Let a late range of an earlier epoch shorten a gap."""
        for gap in self.gaps:
            if (gap.node, gap.flow) == (node, flow) and gap.after <= batch.after < gap.upto:
                gap.after = batch.upto
                if gap.after >= gap.upto:
                    self.gaps.remove(gap)
                return True
        return False

    def unexpected_gaps(self) -> list[Gap]:
        """Return the gaps in which the mesh has lost an event, or none is withheld."""
        return [
            gap
            for gap in self.gaps
            if not any(
                flow == gap.flow and gap.after < mark == gap.upto for flow, mark in self.withheld
            )
        ]

    def check_ends(self) -> None:
        """Check that each live node with subscriptions has come to the end of each flow."""
        for node in self.live:
            if not node.is_root and node.subscriptions:
                for flow, end in self.ends.items():
                    if node.positions.get(flow) != end:
                        found = node.positions.get(flow)
                        self.violations.append(f"{node.name} {flow}: {found}, not {end}")


class MeshNode:
    """A router with its clock, timer and socket (`IRouterHost`)."""

    def __init__(self, mesh: Mesh, name: str, settings: DcpSettings, *, is_root: bool) -> None:
        self.name = name
        self.origin = f"log-of-{name}"
        self.ticket: ClientTicket | None = None
        self.tickets = TicketRules()
        self.patterns = [PATTERN]
        self.is_root = is_root
        self.is_alive = True
        self.positions: dict[str, Mark] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.reported: list[tuple[float, str]] = []
        """Alarms, with their times."""
        self.received = 0
        """Events that were delivered."""
        self.dropped = 0
        """Events that queue policies of all parents have dropped."""
        self.bad_queries: set[str] = set()
        """Texts that this node does not accept of others."""
        self.feed_delay = 0.0
        """Time after which a feeder selects by new interest."""
        self._mesh = mesh
        self._clock = KillableClock(mesh.time.clock)
        self._interest: dict[Hashable, dict[str, str]] = {}
        self._socket: MemoryDatagramSocket = mesh.datagrams.bind(name, self._received)
        self.groups = MeshGroups(mesh.datagrams, name, self._receive_from_groups)
        self._timer = DeadlineTimer(self._clock, self._handle_timeout)
        self.router = Router(
            *(self, settings, Random(f"{mesh.time.seed} {name}").randbytes, list(mesh.roots)),
            *(mesh.random, mesh.time.wall_clock, mesh.now),
            is_root=is_root,
            group_host=self.groups,
        )
        self.changed()

    # ------------------------------------------------------------------ the router's host

    def send(self, peer: Hashable, packets: list[bytes]) -> None:
        self._socket.send(packets, peer)

    def report(self, alarm: str) -> None:
        self.reported.append((self._mesh.now, alarm))

    def open_peer(self, peer: Hashable) -> None:
        """Do nothing: each node reaches each other one."""

    keep_peer = close_peer = open_peer

    @property
    def sent(self) -> int:
        """Datagrams, to groups too."""
        return self._socket.sent + self.groups.sent

    @property
    def sent_bytes(self) -> int:
        return self._socket.sent_bytes

    def count_interest(self) -> int:
        """Return the number of queries behind its links."""
        return sum(map(len, self._interest.values()))

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        return [
            frozenset(
                link
                for link, queries in self._interest.items()
                if any(matches(query, event.mark[1]) for query in queries.values())
            )
            for event in batch.events
        ]

    def deliver(self, batch: FlowBatch) -> None:
        self._mesh.check(self, batch)

    def has_interest(self, batch: FlowBatch) -> Sequence[bool]:
        found = zip(batch.events, self.match(batch), strict=True)
        return [bool(links) or self.must_get(batch.flow, each.mark) for each, links in found]

    def set_link_interest(
        self,
        link: Hashable,
        key: str,
        interest: CarriedInterest | None,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        queries = self._interest.setdefault(link, {})
        if interest is None:
            queries.pop(key, None)
            if not queries:
                del self._interest[link]
            return
        if interest.query in self.bad_queries:
            raise BadQuery(f"{interest.query} is not accepted here")
        queries[key] = to_query(interest)[1]

        def activate() -> None:
            on_active(dict(self._mesh.ends))
            self.changed()

        if self.is_root and self.feed_delay:
            self._clock.callLater(self.feed_delay, activate)
        else:
            on_active({})

    def describe_peer(self, peer: Hashable) -> str:
        return str(peer)

    def find_peer(self, address: str) -> Hashable | None:
        return None if address == self.name else address

    # ------------------------------------------------------------------ life

    def _received(self, batch: Sequence[tuple[bytes, Hashable]]) -> None:
        if self.is_alive:
            for data, source in batch:
                self.router.receive(source, [data], self._mesh.now)
            self.changed()

    def _receive_from_groups(self, packets: Sequence[bytes]) -> None:
        if self.is_alive and self.router.groups is not None:
            self.router.groups.receive(packets, self._mesh.now)
            self.changed()

    def _handle_timeout(self) -> None:
        self.router.handle_timeout(self._mesh.now)
        self.changed()

    def changed(self) -> None:
        if self.is_alive:
            self.router.flush(self._mesh.now)
            self._timer.arm(self.router.next_timeout())
            self._mesh.on_change(self)

    def stop(self) -> None:
        """Leave the mesh, and end."""
        if self.is_alive:
            self.router.stop(self._mesh.now)
            self.kill()

    def kill(self) -> None:
        self.is_alive = False
        self._clock.kill()
        self._mesh.datagrams.unbind(self.name)

    # ------------------------------------------------------------------ subscriptions

    def subscribe(self, key: str, interest: CarriedInterest) -> None:
        subscription = self.subscriptions[key] = Subscription(interest.query)

        def activate(marks: Mapping[str, Mark]) -> None:
            subscription.start, subscription.was_active = dict(marks), True

        self.router.announce(key, interest, activate)
        self.changed()

    def unsubscribe(self, key: str) -> None:
        del self.subscriptions[key]
        self.router.withdraw(key)
        self.changed()

    def must_get(self, flow: str, mark: Mark) -> bool:
        """Return whether an active subscription must get an event."""
        return any(
            each.start is not None
            and mark > each.start.get(flow, (0, 0))
            and matches(each.query, mark[1])
            for each in self.subscriptions.values()
        )
