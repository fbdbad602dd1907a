"""A small world in virtual time: one whole node on a real log, a network in memory, real clients.

Everything that happens follows from the seed. The node can be killed as by `kill -9`, at any moment
between two turns, and started again on the same folder; its disk can be full; the connection of
each client can be cut.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import attrs

from broker.client.client import Client
from broker.config import Settings
from broker.node.node import Node
from broker.testing.memory_network import MemoryNetwork
from broker.testing.node_process import (
    NodeProcess,
    SimulatedDisk,
    adapt_to_virtual_time,
    find_pending_timers,
)
from broker.testing.simulated_clients import SimulatedClients
from broker.testing.virtual_time import BEGINNING, VirtualTime

__all__ = ["BEGINNING", "World"]


class World(VirtualTime):
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
        super().__init__(seed)
        self.network = MemoryNetwork(self.clock, seed, latency=latency, jitter=jitter)
        self._folder = tempfile.TemporaryDirectory(prefix="xmlbroker-world-")
        self._processes = NodeProcess(
            self, self.network, self._adapt(settings or Settings()), thread_delay=thread_delay
        )
        self._clients = SimulatedClients(self, self.network)
        self.start_node()

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all traces."""
        if self.is_running:
            self.kill_node()
        self._folder.cleanup()

    # ------------------------------------------------------------------ the node

    @property
    def node(self) -> Node:
        """The node that runs now."""
        return self._processes.node

    @property
    def is_running(self) -> bool:
        """Whether there is a node at the moment."""
        return self._processes.is_running

    @property
    def disk(self) -> SimulatedDisk:
        """What the node's log lies on."""
        return self._processes.disk

    def start_node(self, settings: Settings | None = None) -> Node:
        """Start a node on the folder that the last one left."""
        if settings is not None:
            self._processes.settings = self._adapt(settings)
        return self._processes.start()

    def kill_node(self) -> None:
        """The end of the node's process: nothing is said, written or cleaned up any more."""
        self._processes.kill()

    def stop_node(self) -> None:
        """Stop the node in good order."""
        self._processes.stop()

    def check_outcomes(self) -> None:
        """AssertionError unless every event has exactly one outcome (T40, A22)."""
        self._processes.check_outcomes()

    def pending_timers(self) -> list[str]:
        """Timers that are none of the node's regular ones: none, when everybody has gone."""
        return find_pending_timers(self, self._processes.periodic_calls)

    def _adapt(self, settings: Settings) -> Settings:
        data = Path(self._folder.name)
        node = attrs.evolve(settings.node, name="simulated", data=data)
        return adapt_to_virtual_time(attrs.evolve(settings, node=node))

    # ------------------------------------------------------------------ clients

    def client_address(self, name: str) -> str:
        """Where the client of this name finds the node."""
        address = f"node/{name}"
        self._processes.listen(address, lambda node: node.connected)
        return address

    def client(self, client_id: str, *, incarnation: int = 1, **settings: Any) -> Client:
        """One process of a client, which has begun to connect."""
        endpoints = [self.client_address(client_id)]
        return self._clients.start(client_id, endpoints, incarnation=incarnation, **settings)

    def cut_client(self, client_id: str) -> None:
        """Break the connection of a client; what is under way on it is lost."""
        self.network.cut(self.client_address(client_id))

    def kill_client(self, client: Client) -> None:
        """The end of a client's process: nothing more is said, and its connection breaks."""
        self._clients.kill(client)
        self.cut_client(client.client_id)
