"""One random schedule of a mesh: nodes join, subscribe, change their queries and die."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import attrs

from broker.testing.datagram_network import DatagramFaults
from plugins.dcp.receiver import ReceiverSettings
from plugins.dcp.settings import DcpSettings
from tests.simulation.dcp.mesh import ALL, Gap, Mesh, MeshNode, modulo
from tests.simulation.dcp.mesh_groups import FIRST_GROUP

#: Seconds.
_STEP = 0.05
_REPAIR = 5.0
#: At this loss, a request or its answer is lost in 36 of 100 cases. Ten of them fit into the
#: patience: all are lost for one in 27,000 missing ranges that one parent has, and a schedule may
#: have thousands. A router that leaves may end 5 s later with children, beside killed nodes, and
#: with it what its children had not got. The log has all of these.
_HIGH_LOSS = 0.2
_MOST_GAPS = 3
#: Of an event from the roots to the last client, without loss: ten links, and what roots differ by.
_PAUSE = 0.3
_SUSPECTED_WITHIN = 1.5


@attrs.frozen
class Schedule:
    """What a seed decides before the run."""

    parents: int
    routers: int
    clients: int
    children: int
    loss: float
    jitter: float
    is_static: bool
    rate: float
    flows: int
    large: float
    """Share of events above a packet's size."""
    kills: int
    withheld: float
    """Share of batches that begin with an event above the clearance of the roots."""

    @classmethod
    def draw(cls, random: Random) -> Schedule:
        parents = random.choice((2, 2, 3))
        return cls(
            parents=parents,
            routers=random.randint(2, 8),
            clients=random.randint(2, 5),
            children=random.choice((4, 50, 50)),
            loss=random.choice((0.0, 0.02, 0.1, 0.2)),
            jitter=random.choice((0.0, 0.002, 0.02)),
            is_static=random.random() < 0.3,
            rate=random.choice((4.0, 20.0, 200.0)),
            flows=random.randint(1, 3),
            large=random.choice((0.0, 0.0, 0.05)),
            kills=random.randint(0, parents - 1),
            withheld=random.choice((0.0, 0.0, 0.1)),
        )


class MeshRun:
    """Runs the schedule of a seed. `violations` has what went wrong."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(f"run {seed}")
        schedule = self.schedule = Schedule.draw(self.random)
        settings = DcpSettings(
            parents=schedule.parents,
            children=schedule.children,
            is_static=schedule.is_static,
            receiver=ReceiverSettings(),
            # From numbers of its own, so that seeds keep their other ones.
            multicast=Random(f"groups {seed}").choice(("", FIRST_GROUP)),
        )
        faults = DatagramFaults(loss=schedule.loss, jitter=schedule.jitter)
        roots = [f"root{number}" for number in range(schedule.parents)]
        self.mesh = Mesh(seed, settings, faults, roots)
        self.mesh.root_skew = self.random.choice((0.0, 0.005, 0.05))
        self._epochs = [self.random.randint(1, 5) for _ in range(schedule.flows)]
        self._ans = [0] * schedule.flows
        self._debt = 0.0
        self._keys = 0
        self._cut_off_at: dict[str, float] = {}
        """Time at which a node lost its last path to a root, by its name."""

    @property
    def violations(self) -> list[str]:
        return self.mesh.violations

    def run(self) -> list[str]:
        """Return the violations."""
        self._build()
        self._flow(2.0)
        for _ in range(4):
            self._change_interest()
            self._flow(self.random.uniform(0.2, 1.5))
        if self.random.random() < 0.3:
            self._restart_origin()
        self._flow(2.0)
        for _ in range(self.random.choice((0, 1, 2))):
            self._move()
            self._flow(self.random.uniform(1.0, 2.5))
        self._kill()
        self._flow(_REPAIR)
        self._check_resilience("after the repair")
        for _ in range(3):
            self._change_interest()
            self._flow(self.random.uniform(0.2, 1.5))
        self._flow(1.0)
        self._settle()
        return self.violations

    # ------------------------------------------------------------------ parts

    def _build(self) -> None:
        schedule, mesh = self.schedule, self.mesh
        for name in mesh.roots:
            node = mesh.add_root(name)
            node.feed_delay = self.random.choice((0.0, 0.02))
        for number in range(schedule.routers):
            mesh.add(f"router{number}")
            mesh.run(self.random.choice((0.0, 0.0, 0.3)))
        mesh.run(3.0)
        for number in range(schedule.clients):
            client = mesh.add(f"client{number}", children=0)
            self._subscribe(client)
            mesh.run(self.random.choice((0.0, 0.2)))
        mesh.time.run_until(lambda: all(map(self._is_whole, mesh.live)), 60.0)

    @property
    def _has_room(self) -> bool:
        """Whether each node may be a child of each root."""
        return self.schedule.children >= self.schedule.routers + self.schedule.clients

    def _is_whole(self, node: MeshNode) -> bool:
        is_flowing = all(each.start is not None for each in node.subscriptions.values())
        parents = self.schedule.parents if self._has_room else 1
        return node.is_root or (len(node.router.parents.paths) >= parents and is_flowing)

    def _subscribe(self, node: MeshNode) -> None:
        self._keys += 1
        number = self.random.choice((1, 2, 3, 5))
        interest = ALL if number == 1 else modulo(number, self.random.randrange(number))
        node.subscribe(f"s{self._keys}", interest)

    def _change_interest(self) -> None:
        for node in self._clients():
            choice = self.random.random()
            if choice < 0.3:
                self._subscribe(node)
            elif choice < 0.5 and len(node.subscriptions) > 1:
                node.unsubscribe(self.random.choice(list(node.subscriptions)))

    def _clients(self) -> Iterator[MeshNode]:
        return (node for node in self.mesh.live if node.name.startswith("client"))

    def _restart_origin(self) -> None:
        """An origin's log loses its tail: offsets come again in a new epoch."""
        number = self.random.randrange(self.schedule.flows)
        self._epochs[number] += 1
        self._ans[number] -= self.random.randint(0, min(5, self._ans[number]))

    def _flow(self, seconds: float) -> None:
        end = self.mesh.now + seconds
        while self.mesh.now < end - 1e-9:
            self._debt += self.schedule.rate * _STEP
            count, self._debt = int(self._debt), self._debt % 1
            if count:
                self._publish(count)
            self.mesh.run(_STEP)

    def _publish(self, count: int) -> None:
        random, number = self.random, self.random.randrange(self.schedule.flows)
        ans = []
        for _ in range(count):
            self._ans[number] += random.randint(1, 3)
            ans.append(self._ans[number])
        size = 5_000 if random.random() < self.schedule.large else 40
        withheld = random.random() < self.schedule.withheld
        flow, epoch = f"origin{number}/asdi.>", self._epochs[number]
        self.mesh.publish(flow, epoch, ans, size, withheld=withheld)

    def _move(self) -> None:
        """Let a router leave, once its children have other parents, or a node find better ones."""
        routers = [node for node in self.mesh.live if node.name.startswith("router")]
        if self.random.random() < 0.5 and len(routers) > 1:
            node = self.random.choice(routers)
            node.router.membership.leave(self.mesh.now)
            self._stop_when_unused(node, self.mesh.now + 5.0)
        else:
            node = self.random.choice([each for each in self.mesh.live if not each.is_root])
            node.router.membership.rebalance(self.mesh.now)
        node.changed()

    def _stop_when_unused(self, node: MeshNode, until: float) -> None:
        if len(node.router.children) and self.mesh.now < until:
            self.mesh.time.clock.callLater(0.1, self._stop_when_unused, node, until)
        else:
            self._note_cut_off(node)
            node.stop()

    def _kill(self) -> None:
        names = [node.name for node in self.mesh.live if not node.name.startswith("client")]
        for name in self.random.sample(names, min(self.schedule.kills, len(names))):
            self._note_cut_off(self.mesh.nodes[name])
            self.mesh.kill(name)

    def _note_cut_off(self, ended: MeshNode) -> None:
        """Note the nodes that have no path to a root without `ended`, in a mesh whose capacity does
        not give each node several parents."""
        if self._has_room:
            return
        connected = {node.name for node in self.mesh.live if node.is_root} - {ended.name}
        others = [node for node in self.mesh.live if not node.is_root and node is not ended]
        while True:
            found = {node.name for node in others if connected & set(_parents_of(node))} - connected
            if not found:
                break
            connected |= found
        for node in others:
            if node.name not in connected:
                self._cut_off_at[node.name] = self.mesh.now

    def _check_resilience(self, when: str) -> None:
        roots = sum(node.is_root for node in self.mesh.live)
        least = min(self.schedule.parents, roots) if self._has_room else 1
        for node in self.mesh.live:
            found = sum(self.mesh.nodes[name].is_alive for name in _parents_of(node))
            if not node.is_root and found < least:
                self.violations.append(f"{node.name} has {found} of {least} parents {when}")

    def _was_cut_off(self, gap: Gap) -> bool:
        """Return whether a gap comes soon after its node lost its last path to a root (A5)."""
        cut_off_at = self._cut_off_at.get(gap.node)
        return cut_off_at is not None and 0 <= gap.time - cut_off_at < _REPAIR

    def _settle(self) -> None:
        self.mesh.run(12.0)
        self.mesh.check_ends()
        gaps = [gap for gap in self.mesh.unexpected_gaps() if not self._was_cut_off(gap)]
        if len(gaps) > (_MOST_GAPS if self.schedule.loss >= _HIGH_LOSS else 0):
            self.violations.extend(map(str, gaps))
        nacks = sum(node.router.nacks for node in self.mesh.nodes.values())
        if self.schedule.loss:
            return
        # A dead parent could have a withheld event, until it is suspected.
        may_wait = self.schedule.kills and self.schedule.withheld
        if not self.schedule.jitter and nacks and not may_wait:
            self.violations.append(f"{nacks} NACKs without any loss")
        slowest = max(self.mesh.latencies, default=0.0)
        if slowest > (_SUSPECTED_WITHIN if may_wait else _PAUSE):
            self.violations.append(f"an event took {slowest:.3f} s without any loss")


def _parents_of(node: MeshNode) -> list[str]:
    return [each.candidate.name for each in node.router.parents]
