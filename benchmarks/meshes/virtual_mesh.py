"""A mesh in virtual time. Datagrams are lost at the receiver, by link."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial

import attrs

from benchmarks.meshes.documents import DocumentFlow, payloads
from benchmarks.meshes.matching import EVERYTHING
from benchmarks.meshes.mesh_node import LinkLoss, MeshNode, ans_of
from broker.streams.contract import FlowBatch
from broker.testing.datagram_network import DatagramFaults, DatagramNetwork, MemoryDatagramSocket
from broker.testing.virtual_time import VirtualTime
from plugins.dcp.packet import ACK, FIN, KEEPALIVE, NACK, STREAM
from plugins.dcp.settings import DcpSettings

_NOT_EVENTS = ACK | NACK | KEEPALIVE | STREAM | FIN


@attrs.define
class LinkCount:
    """Sent on a link, in one direction."""

    datagrams: int = 0
    event_datagrams: int = 0


class VirtualMesh:
    """Nodes, and the events that their roots publish at the same time."""

    def __init__(self, seed: int, delay: float) -> None:
        """`delay` is that of each link one way, in seconds."""
        self.nodes: dict[str, MeshNode] = {}
        self.published: dict[int, float] = {}
        """Time of each event by its AN."""
        self.arrivals: dict[str, dict[int, float]] = {}
        """Times at which a client's subscription got its events, in order."""
        self.sent: dict[tuple[Hashable, Hashable], LinkCount] = {}
        self.feed_delays: dict[str, float] = {}
        """Seconds by which a root gets each event late."""
        self._seed = seed
        self._time = VirtualTime(seed)
        self._network = DatagramNetwork(self._time.clock, seed, DatagramFaults(delay=delay))
        self._network.filter = self._count
        self._sockets: dict[str, MemoryDatagramSocket] = {}
        self._documents = DocumentFlow(payloads())

    # ------------------------------------------------------------------ nodes

    def add(self, name: str, parents: Sequence[str] = (), *, is_static: bool = False) -> MeshNode:
        settings = DcpSettings(parents=max(1, len(parents)), is_static=is_static)
        return self._add(name, settings, parents)

    def add_searching(self, name: str, roots: Sequence[str], settings: DcpSettings) -> MeshNode:
        """Add a root, or a node that finds its parents among the roots and their descendants."""
        return self._add(name, settings, () if name in roots else roots, roots)

    def _add(
        self,
        name: str,
        settings: DcpSettings,
        parents: Sequence[str],
        roots: Sequence[str] = (),
    ) -> MeshNode:
        node = MeshNode(name, self._time.clock, settings, parents, self._seed, roots)
        node.searches = bool(roots)
        socket = self._network.bind(name, node.receive)
        node.transmit = socket.send
        self.nodes[name], self._sockets[name] = node, socket
        node.start()
        return node

    def kill(self, name: str) -> None:
        self._network.unbind(name)
        self.nodes.pop(name).stop()

    def add_client(
        self, parents: Sequence[str], query: str = EVERYTHING, *, is_static: bool = False
    ) -> MeshNode:
        client = self.add("client", parents, is_static=is_static)
        self.record(client.name)
        client.subscribe(query)
        return client

    def record(self, name: str) -> None:
        """Note the arrivals at a node from now on."""
        self.arrivals[name] = {}
        self.nodes[name].on_delivery = partial(self._record, name)

    def lose(self, share: float, links: Iterable[tuple[str, str]]) -> None:
        """Lose a share of the datagrams of these links from now on, in both directions."""
        for one, other in links:
            for source, target in ((one, other), (other, one)):
                seed = f"loss {self._seed} {source} {target}"
                self.nodes[target].losses[source] = LinkLoss(share, seed)

    @property
    def sent_bytes(self) -> int:
        """Bytes of all datagrams of all nodes."""
        return sum(each.sent_bytes for each in self._sockets.values())

    # ------------------------------------------------------------------ time

    @property
    def now(self) -> float:
        return self._time.clock.seconds()

    def run(self, seconds: float) -> None:
        self._time.run(seconds)

    def begin(self) -> None:
        """Connect all nodes, and let the first events through. Raises AssertionError after two
        minutes."""
        for node in self.nodes.values():
            self._time.run_until(lambda node=node: node.is_whole)  # type: ignore[misc]
        for _ in range(10):
            self.publish(1)
            self.run(0.1)
        self.run(1.0)

    def publish(self, count: int) -> None:
        """Publish the next events at all roots."""
        batch = self._documents.next_batch(count)
        for an in ans_of(batch):
            self.published[an] = self.now
        for name, node in self.nodes.items():
            if not node.parent_count:
                delay = self.feed_delays.get(name, 0.0)
                self._time.clock.callLater(delay, node.publish, batch)

    def publish_paced(self, bursts: int, gap: float, count: int = 1) -> range:
        """Publish bursts of `count` events, one each `gap` seconds. Return their ANs."""
        first = len(self.published) + 1
        for _ in range(bursts):
            self.publish(count)
            self.run(gap)
        return range(first, len(self.published) + 1)

    def latencies(self, client: str, ans: Iterable[int]) -> list[float]:
        """Return the ordered latencies of those events that have arrived."""
        arrivals = self.arrivals[client]
        return sorted(arrivals[an] - self.published[an] for an in ans if an in arrivals)

    # ------------------------------------------------------------------ records

    def _record(self, name: str, batch: FlowBatch) -> None:
        arrivals = self.arrivals[name]
        last = next(reversed(arrivals), 0)
        for an in ans_of(batch):
            assert an > last, f"{name} got the event {an} after {last}"
            arrivals[an] = self.now
            last = an

    def _count(self, datagram: bytes, source: Hashable, target: Hashable) -> bool:
        found = self.sent.get((source, target))
        if found is None:
            found = self.sent[source, target] = LinkCount()
        flags = int.from_bytes(datagram[:2], "big")
        found.datagrams += 1
        found.event_datagrams += not flags & _NOT_EVENTS
        return True


def links_between(parents: Sequence[str], children: Sequence[str]) -> list[tuple[str, str]]:
    return [(parent, child) for parent in parents for child in children]
