"""One whole node on a real log, with a memory network and real clients, in virtual time.

Everything follows from the seed. The node can be killed as by `kill -9` between two reactor turns,
and restarted on the same folder. Its disk can be full.
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
    """A node, a network and clients from one seed; a context manager, or call `close`.

    A log commit or read takes `thread_delay` seconds. The node listens at one address per client,
    so that one client's connection can be cut.
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
        """Kill the node and remove its folder."""
        if self.is_running:
            self.kill_node()
        self._folder.cleanup()

    # ------------------------------------------------------------------ the node

    @property
    def node(self) -> Node:
        return self._processes.node

    @property
    def is_running(self) -> bool:
        return self._processes.is_running

    @property
    def disk(self) -> SimulatedDisk:
        return self._processes.disk

    def start_node(self, settings: Settings | None = None) -> Node:
        if settings is not None:
            self._processes.settings = self._adapt(settings)
        return self._processes.start()

    def kill_node(self) -> None:
        """Kill the node as by `kill -9`."""
        self._processes.kill()

    def stop_node(self) -> None:
        self._processes.stop()

    def check_outcomes(self) -> None:
        """AssertionError unless every event has exactly one outcome (T40, A22)."""
        self._processes.check_outcomes()

    def pending_timers(self) -> list[str]:
        """Return the timers that are not periodic: none after all clients have left."""
        return find_pending_timers(self, self._processes.periodic_calls)

    def _adapt(self, settings: Settings) -> Settings:
        data = Path(self._folder.name)
        node = attrs.evolve(settings.node, name="simulated", data=data)
        return adapt_to_virtual_time(attrs.evolve(settings, node=node))

    # ------------------------------------------------------------------ clients

    def client_address(self, name: str) -> str:
        address = f"node/{name}"
        self._processes.listen(address, lambda node: node.accept_connection)
        return address

    def client(self, client_id: str, *, incarnation: int = 1, **settings: Any) -> Client:
        """Start a client, which connects in the background."""
        endpoints = [self.client_address(client_id)]
        return self._clients.start(client_id, endpoints, incarnation=incarnation, **settings)

    def cut_client(self, client_id: str) -> None:
        """Packets in transit are lost."""
        self.network.cut(self.client_address(client_id))

    def kill_client(self, client: Client) -> None:
        self._clients.kill(client)
        self.cut_client(client.client_id)
