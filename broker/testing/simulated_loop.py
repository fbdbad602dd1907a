"""Client loop for simulations: virtual time, a memory network, Deferreds."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.client.client import Client
from broker.client.loop import T
from broker.client.settings import ClientSettings
from broker.client.twisted_face import DeferredPromise, run_with_timeout
from broker.errors import BrokerError, NotConnected
from broker.testing.datagram_network import DatagramNetwork
from broker.testing.memory_network import MemoryNetwork
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel
from broker.transport.socket.datagram_transport import IDatagramPort, OnDatagrams


class SimulatedLoop:
    """See `broker.client.loop.Loop`."""

    cancelled_error: type[BaseException] = CancelledError

    def __init__(
        self, clock: IClock, network: MemoryNetwork, datagrams: DatagramNetwork | None = None
    ) -> None:
        self.clock = clock
        self._datagrams = datagrams
        self._network = network

    def make_promise(self) -> DeferredPromise:
        return DeferredPromise()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call in the clock's next turn."""
        self.clock.callLater(0.0, call)

    def run_with_timeout(self, work: Coroutine[Any, Any, Any], seconds: float) -> Deferred[Any]:
        return run_with_timeout(self.clock, work, seconds)

    def run_in_thread(self, call: Callable[[], None]) -> None:
        """Disk access takes no virtual time."""
        call()

    def compute(self, call: Callable[[], T], done: Callable[[T], None]) -> None:
        """Computing takes no virtual time."""
        self.clock.callLater(0.0, done, call())

    def open_port(self, host: str, on_datagrams: OnDatagrams) -> IDatagramPort:
        assert self._datagrams is not None, "this simulation has no datagrams"
        return self._datagrams.open_port(on_datagrams)

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        def refused(failure: Failure) -> None:
            error: Any = failure.value
            failed(error if isinstance(error, BrokerError) else NotConnected(str(error)))

        self._network.connect(endpoint).addCallbacks(connected, refused)


def simulated_client(
    clock: Clock, network: MemoryNetwork, endpoints: Sequence[str], settings: ClientSettings
) -> Client:
    """Return a client that has started to connect."""
    client = Client(SimulatedLoop(clock, network), endpoints, settings)
    client.start()
    return client
