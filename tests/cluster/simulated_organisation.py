"""Nodes of all organisation cores in virtual time: joining, links and the map."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Iterable

import attrs

from broker.cluster.acceptor import Acceptor
from broker.cluster.address import Address, UnitPath
from broker.cluster.admission import AdmissionContext, AdmissionRules, surplus_members
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import (
    Accepted,
    Admission,
    Initiator,
    Refusal,
    Refused,
    Responder,
    Send,
)
from broker.cluster.handshake_messages import GATEWAY, MEMBER, PROTOCOL_VERSIONS, NodeHello
from broker.cluster.joining import AskNode, Founded, Joined, Joining, RoundFailed
from broker.cluster.known_peers import KnownPeers
from broker.cluster.map.core import NetworkMap
from broker.cluster.map.own_links import OwnLinks, Publication
from broker.cluster.meshing import Dial, Meshing, Target, keeps_connection
from broker.cluster.messages import Message, decode, encode
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import Send as Flood
from broker.cluster.tables.effects import TableChanged, TablesEffect
from broker.errors import NotConnected, ShuttingDown

KEY = b"the network's key"


class World:
    """Virtual time, and connections with ordered delivery after random delays."""

    def __init__(self, seed: int, most_nodes: int) -> None:
        self.rng = random.Random(seed)
        self.rules = AdmissionRules(most_nodes, {"tcp": 64})
        self.now = 1.0
        self.nodes: dict[Endpoint, OrganisedNode] = {}
        self._order = itertools.count()
        self._apart: frozenset[str] = frozenset()
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when, next(self._order), what))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._agenda and self._agenda[0][0] <= end:
            when, _order, what = heapq.heappop(self._agenda)
            self.now = max(self.now, when)
            what()
        self.now = end

    def part(self, *names: str) -> None:
        """Partition these nodes from all others, until the next call."""
        self._apart = frozenset(names)
        for node in self.nodes.values():
            for name, end in list(node.links.items()):
                if not self.joins(node.node.name, name):
                    end.open = False
                    node.closed(end)

    def joins(self, one: str, other: str) -> bool:
        return (one in self._apart) == (other in self._apart)

    def add(self, name: str, *seeds: str) -> OrganisedNode:
        endpoint = Endpoint(name, 4000)
        node = OrganisedNode(self, name, [Endpoint(seed, 4000) for seed in seeds])
        self.nodes[endpoint] = node
        return node


@attrs.define(eq=False)
class End:
    node: OrganisedNode
    handshake: Initiator | Responder
    initiated: bool
    over: Callable[[Accepted | Refused], None]
    far: End | None = None
    peer: NodeDescriptor | None = None
    open: bool = True
    _last: float = 0.0

    def send(self, message: Message) -> None:
        if self.far and not self.node.world.joins(self.node.node.name, self.far.node.node.name):
            return
        data = encode(message)
        self._later(lambda far: far.node.received(far, decode(data)))

    def close(self) -> None:
        if self.open:
            self.open = False
            self._later(lambda far: far.node.closed(far))

    def _later(self, what: Callable[[End], None]) -> None:
        world, far = self.node.world, self.far
        assert far
        self._last = max(self._last, world.now + world.rng.uniform(0.001, 0.05))
        world.at(self._last, lambda: what(far) if far.open else None)


class OrganisedNode:
    """It applies effects as a real node does."""

    def __init__(self, world: World, name: str, seeds: list[Endpoint]) -> None:
        self.world = world
        self.joining = Joining(name, seeds, world.rng)
        self.node = NodeDescriptor(
            *(Address((), name), f"{len(world.nodes):016x}", 1, PROTOCOL_VERSIONS),
            tcp=Endpoint(name, 4000),
        )
        self.map: NetworkMap | None = None
        self.alive = True
        self.links: dict[str, End] = {}
        self.times_left = 0
        self._gateway: Endpoint | None = None

    def start(self) -> None:
        self._joined_so_far(self.joining.start(self.world.now))

    def found(self, cluster: UnitPath) -> None:
        self._settle(cluster, 0)

    def _joined_so_far(self, effects: Iterable[object]) -> None:
        for effect in effects:
            match effect:
                case AskNode(endpoint):
                    self._dial(Target(endpoint, MEMBER, ()), self._answered)
                case RoundFailed(_error, rest):
                    self.world.at(self.world.now + rest, self._wake_joining)
                case Founded(cluster, gateway):
                    self._gateway = gateway
                    self._settle(cluster, 0)
                case Joined(cluster, admitted):
                    self._settle(cluster, admitted)

    def _wake_joining(self) -> None:
        self._joined_so_far(self.joining.handle_timeout(self.world.now))

    def _answered(self, answer: Accepted | Refused) -> None:
        if isinstance(answer, Accepted):
            self._joined_so_far(self.joining.join_accepted(answer, self.world.now))
        else:
            self._joined_so_far(self.joining.join_refused(answer, self.world.now))

    def _settle(self, cluster: UnitPath, admitted: int) -> None:
        if self.map and cluster == self.map.address.unit:
            return
        for end in self.links.values():
            end.close()
        self.links.clear()
        address = Address(cluster, self.node.name)
        self.node = self.node._replace(address=address, admitted=admitted)
        self.map = NetworkMap(address)
        self.own = OwnLinks(self.node)
        self.tables = Tables(address, 1, lambda: [(self.node.origin, 0, 0)])
        self.acceptor: Acceptor[End] = Acceptor(self.world.rules, self._context)
        self.meshing = Meshing(64, self.world.rng)
        self.known_peers = KnownPeers(self.node.name)
        self._publish(self.own.set_node(self.node))
        self._tick(self.map)

    def _leave(self) -> None:
        self.times_left += 1
        self._do(self.tables.withdraw("node", self.node.name, self.world.now))
        self.map = None
        for end in list(self.links.values()):
            end.close()
        self.links.clear()
        self.node = self.node._replace(address=Address((), self.node.name), admitted=0)
        self._joined_so_far(self.joining.rejoin(self.world.now))

    def die(self) -> None:
        self.alive = False
        self.map = None
        for end in self.links.values():
            end.close()

    def _context(self) -> AdmissionContext:
        assert self.map
        return AdmissionContext(
            *(self.node, self.map.members(), {"tcp": len(self.links)}),
            *(self.map.link_counts(), self.map.other_cluster_nodes()),
        )

    def _dial(self, target: Target, over: Callable[[Accepted | Refused], None]) -> None:
        far = self.world.nodes.get(target.endpoint)
        handshake = Initiator(
            *(self.node, "net", KEY),
            purpose=target.purpose,
            cluster=target.cluster,
            expected_name=target.name,
        )
        end = End(self, handshake, True, over)
        apart = not self.world.joins(self.node.name, target.endpoint.host)
        if (
            apart
            or not (far and far.alive and far.map)
            or end in far.acceptor.start_handshake(end, self.node.name, self.world.now)
        ):
            error = Refused(NotConnected("refused"))
            self.world.at(self.world.now + 0.01, lambda: over(error))
            return
        other = End(
            far,
            far._answering(),
            False,
            lambda answer: far.acceptor.end_handshake(end),
            far=end,
        )
        end.far = other
        other.handshake.start(self.world.now)
        self._apply_handshake(end, handshake.start(self.world.now))

    def _answering(self) -> Responder:
        life = self.map

        def decide(hello: NodeHello, trusted: bool) -> Admission | Refusal:
            if self.map is not life:
                return Refusal(ShuttingDown("this node has left its cluster"))
            now = self.world.now
            return self.acceptor.decide_admission(hello, "192.0.2.1", "tcp", now, int(now * 1000))

        return Responder(self.node, "net", KEY, decide)

    def received(self, end: End, message: Message) -> None:
        if not self.alive:
            return
        if end.peer is None:
            self._apply_handshake(end, end.handshake.receive_message(message, self.world.now))
        elif self.map and self.links.get(end.peer.name) is end:
            self._do(self.tables.receive_message(end.peer.name, message, self.world.now))

    def closed(self, end: End) -> None:
        end.open = False
        if end.peer is None:
            self._apply_handshake(end, end.handshake.connection_lost())
        elif self.map and self.links.get(end.peer.name) is end:
            self._down(end.peer.name)

    def _apply_handshake(self, end: End, effects: Iterable[object]) -> None:
        for effect in effects:
            match effect:
                case Send(message):
                    end.send(message)
                case Accepted():
                    assert effect.trusted
                    end.over(effect)
                    self._up(end, effect.peer)
                case Refused():
                    end.over(effect)
                    end.close()

    def _up(self, end: End, peer: NodeDescriptor) -> None:
        end.peer = peer
        now = self.world.now
        if not self.map:
            end.close()
            return
        if peer.name in self.links:
            if not keeps_connection(self.node.name, peer.name, end.initiated):
                end.close()
                return
            self.links.pop(peer.name).close()
            self._do(self.tables.remove_neighbour(peer.name, now))
        self.links[peer.name] = end
        self._do(self.tables.add_neighbour(peer.name, peer.address.unit, now))
        self._publish(self.own.add_link(peer, "tcp", 1, 2))
        self._dialled(self.meshing.link_up(peer.name, now))
        self._count_members()

    def _down(self, name: str) -> None:
        now = self.world.now
        del self.links[name]
        self._do(self.tables.remove_neighbour(name, now))
        self._publish(self.own.remove_link(name))
        self._dialled(self.meshing.link_down(name, now))
        self._count_members()

    def _count_members(self) -> None:
        peers = [end.peer for end in self.links.values() if end.peer]
        members = sum(peer.address.unit == self.node.address.unit for peer in peers)
        self.joining.set_member_links(members, self.world.now)

    def _publish(self, publications: Iterable[Publication]) -> None:
        assert self.map
        for each in publications:
            key = (each.kind, each.subject, self.node.name)
            self.map.apply_change(key, each.scope, each.changes)
            now = self.world.now
            self._do(self.tables.publish(each.kind, each.subject, each.scope, each.changes, now)[1])

    def _do(self, effects: Iterable[TablesEffect]) -> None:
        for effect in effects:
            match effect:
                case Flood(neighbour, message):
                    self.links[neighbour].send(message)
                case TableChanged(key, scope, changes, gone) if self.map:
                    self.map.apply_change(key, scope, changes, gone)

    def _tick(self, life: NetworkMap) -> None:
        if self.map is not life:
            return
        now = self.world.now
        self._do(self.tables.handle_timeout(now))
        self._joined_so_far(self.joining.handle_timeout(now))
        members = life.members()
        if self.node.name in surplus_members(members, self.world.rules.most_nodes):
            self._leave()
            return
        self.known_peers.update(members, now)
        everybody = [*sorted(members.items()), *self.known_peers.list_absent(members).items()]
        targets = {
            name: Target(node.tcp, MEMBER, node.address.unit, name)
            for name, node in everybody
            if node.tcp and name != self.node.name
        }
        if self._gateway:
            name = self._gateway.host
            targets[name] = Target(self._gateway, GATEWAY, (), name)
        self._dialled(self.meshing.set_targets(targets, now))
        for name in self.links:
            self._dialled(self.meshing.link_up(name, now))
        self.world.at(now + 0.05, lambda: self._tick(life))

    def _dialled(self, dials: Iterable[Dial]) -> None:
        for dial in dials:
            self._dial(dial.target, self._over(dial.key))

    def _over(self, key: str) -> Callable[[Accepted | Refused], None]:
        life = self.map

        def over(answer: Accepted | Refused) -> None:
            if isinstance(answer, Refused) and self.map and self.map is life:
                self.known_peers.record_refusal(key, answer.error)
                self._dialled(self.meshing.dial_failed(key, self.world.now))

        return over
