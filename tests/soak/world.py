"""The network of one soak run: nodes, clients, relays, and a log of all faults."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from examples.free_ports import free_ports
from tests.soak.layout import (
    CLUSTERS,
    DTD_FETCHING_NODES,
    GATEWAYS,
    NAMES,
    UDP_CLUSTER,
    Layout,
    Ports,
)
from tests.soak.node import SoakNode
from tests.soak.relay import Relays
from tests.soak.soak_client import SoakClient, make_clients

READY_SECONDS = 60.0
POLL_SECONDS = 0.1


class World:
    """Objects of faults, on one asyncio loop."""

    def __init__(self, seed: int, layout: Layout, *, rate: float, most_damaged: int) -> None:
        """At most `most_damaged` disks lose data."""
        self.random = Random(f"soak {seed}")
        self.layout = layout
        self.nodes = {name: SoakNode(name, layout) for name in NAMES}
        self.clients = make_clients(layout, Random(f"clients {seed}"), rate)
        self.relays = Relays(lambda: {name: node.pid for name, node in self.nodes.items()})
        self.most_damaged = most_damaged
        self.lost_until: dict[str, float] = {}
        """By node: the last time at which an event may have been lost."""
        self.has_stepped_clock = False
        self.has_emptied_disk = False
        """A node without a log knows no other origin."""
        self.restored_nodes: set[str] = set()
        """From an older copy of their disks."""
        self.versions = 0
        """Of the unknown type."""
        self.fault_notes: list[str] = []
        """And unexpected deaths, with their times."""
        self.problems: list[str] = []
        """They break no guarantee."""
        self.started_at = time.monotonic()

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Pairs that are linked by TCP."""
        inside = [
            (one, other)
            for cluster, names in CLUSTERS.items()
            for one in names
            for other in names
            if one < other and cluster != UDP_CLUSTER
        ]
        return [*inside, *GATEWAYS.items()]

    def note(self, line: str) -> None:
        self.fault_notes.append(
            f"{time.monotonic():.3f} (+{time.monotonic() - self.started_at:.1f} s) {line}"
        )

    async def start(self) -> None:
        for name, node in self.nodes.items():
            await self.relays.start(
                name, self.layout.ports[name].relay, self.layout.ports[name].nodes
            )
            node.start()
        async with asyncio.timeout(READY_SECONDS):
            for node in self.nodes.values():
                await self.wait_until_ready(node, 1)

    async def wait_until_ready(self, node: SoakNode, starts: int) -> None:
        """Raises RuntimeError if the process ended."""
        while node.starts < starts:
            if not node.is_running:
                status = None if node.process is None else node.process.status
                raise RuntimeError(f"{node.name} ended with status {status}")
            await asyncio.sleep(POLL_SECONDS)

    async def start_node(self, node: SoakNode, faults: str = "") -> bool:
        """Return whether the node is ready."""
        starts = node.starts + 1
        node.start(faults)
        try:
            async with asyncio.timeout(READY_SECONDS):
                await self.wait_until_ready(node, starts)
        except (RuntimeError, TimeoutError) as error:
            self.problems.append(
                f"{node.name} did not start: {error!r}; {last_lines(node.read_log())}"
            )
            return False
        return True

    @contextmanager
    def claim_node(self) -> Iterator[SoakNode | None]:
        """No other fault acts on the node; None if there is none."""
        free = [node for node in self.nodes.values() if node.is_running and not node.is_claimed]
        # More than half of the nodes must keep running.
        if len(free) <= len(self.nodes) // 2:
            yield None
            return
        node = self.random.choice(free)
        node.is_claimed = True
        try:
            yield node
        finally:
            node.is_claimed = False

    @contextmanager
    def claim_disk(self) -> Iterator[SoakNode | None]:
        """Claim a node whose disk may lose data; None if there is none.

        A restored node is not claimed again: until it has its events back, a second failure of its
        disk is beyond the guarantees (`docs/guarantees.md`, limits).
        """
        names = set(self.lost_until if len(self.lost_until) >= self.most_damaged else self.nodes)
        # Nodes with publishers lose most.
        free = [
            self.nodes[name]
            for name in (*sorted(names), *(3 * DTD_FETCHING_NODES))
            if name in names
        ]
        free = [node for node in free if node.is_running and not node.is_claimed]
        free = [node for node in free if node.name not in self.restored_nodes]
        if not free:
            yield None
            return
        node = self.random.choice(free)
        node.is_claimed = True
        try:
            yield node
        finally:
            node.is_claimed = False

    def stop(self, *, keep: bool) -> None:
        """With `keep`, copy the files first."""
        for client in self.clients.values():
            for process in client.processes:
                process.kill_all()
        for node in self.nodes.values():
            node.kill(machine=True)
            node.disk.close(keep=keep)

    def pick_client(self) -> SoakClient | None:
        """No other fault acts on the client."""
        free = [each for each in self.clients.values() if each.is_running and not each.is_claimed]
        return self.random.choice(free) if free else None


def make_layout(folder: Path, dtd_port: int) -> Layout:
    free = iter(free_ports(3 * len(NAMES)))
    ports = {name: Ports(next(free), next(free), next(free)) for name in NAMES}
    path = folder
    (path / "key").write_text("a key of all the soak's nodes")
    return Layout(path, ports, dtd_port)


def last_lines(text: str, count: int = 3) -> str:
    """Return the last lines as one."""
    return " | ".join(line.strip()[:200] for line in text.splitlines()[-count:])
