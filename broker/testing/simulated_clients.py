"""Clients in virtual time: processes of the client library that can be killed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from broker.client.client import Client
from broker.client.login import Credentials
from broker.client.settings import ClientSettings
from broker.testing.datagram_network import DatagramNetwork
from broker.testing.killable import KillableClock, KillableLoop
from broker.testing.memory_network import MemoryNetwork
from broker.testing.virtual_time import VirtualTime


class SimulatedClients:
    def __init__(
        self,
        time: VirtualTime,
        network: MemoryNetwork,
        datagrams: DatagramNetwork | None = None,
    ) -> None:
        self._datagrams = datagrams
        self._time = time
        self._network = network
        self._clocks: dict[Client, KillableClock] = {}

    def start(
        self,
        client_id: str,
        endpoints: Sequence[str],
        *,
        incarnation: int = 1,
        account: str = "",
        secret: str = "",
        **settings: Any,
    ) -> Client:
        """Start a process, which connects in the background."""
        own = ClientSettings(
            client_id=client_id,
            incarnation=incarnation,
            wall_clock=self._time.wall_clock,
            random=Random(self._time.random.random()),
            credentials=Credentials(account, secret),
            **{"longest_wait": 2.0, **settings},
        )
        clock = KillableClock(self._time.clock)
        client = Client(KillableLoop(clock, self._network, self._datagrams), endpoints, own)
        self._clocks[client] = clock
        client.start()
        return client

    def kill(self, client: Client) -> None:
        """Kill a process, which sends nothing more."""
        self._clocks.pop(client).kill()
