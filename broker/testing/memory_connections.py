"""Connections of transports' links in memory (`broker.streams.connection_port`)."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, fail, succeed

from broker.cluster.descriptor import Endpoint
from broker.errors import NotConnected
from broker.testing.killable import KillableClock
from broker.testing.memory_network import MemoryNetwork
from broker.transport.socket.contract import ISocketChannel


class MemoryConnections:
    """A socket of one process for connections. See `IConnectionSocket`."""

    def __init__(
        self,
        network: MemoryNetwork,
        clock: KillableClock,
        address: tuple[str, int],
        on_connect: Callable[[ISocketChannel], None],
    ) -> None:
        """Raises `CannotListenError` if the address is in use."""
        self.address = address
        self._network = network
        self._clock = clock
        self._port = network.listen(link_place(address), on_connect)

    def resolve(self, host: str, port: int) -> tuple[str, int]:
        return host, port

    def resolve_name(self, host: str) -> Deferred[str]:
        if address := self._network.hosts.get(host, host):
            return succeed(address)
        return fail(NotConnected(f"{host} does not resolve"))

    def dial(self, endpoint: Endpoint) -> Deferred[ISocketChannel]:
        connection = self._network.connect(link_place(endpoint), link_place(self.address))
        return connection.addCallback(self._drop_if_dead)

    def stop(self) -> None:
        self._port.stop_listening()

    def _drop_if_dead(self, channel: ISocketChannel) -> ISocketChannel | Deferred[ISocketChannel]:
        if self._clock.is_alive:
            return channel
        channel.abort(NotConnected("the process is dead"))
        return Deferred()


def link_place(address: tuple[str, int]) -> str:
    """Return the place of an address in the network."""
    return f"{address[0]}:{address[1]}"
