"""Clock, loop and threads of processes that can be killed, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.errors import BrokerError, NotConnected
from broker.testing.datagram_network import DatagramNetwork
from broker.testing.memory_network import MemoryNetwork
from broker.testing.simulated_loop import SimulatedLoop
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel
from broker.transport.socket.datagram_transport import Address, IDatagramPort, OnDatagrams


class KillableClock:
    """Clock of a process; it makes no more calls after `kill`."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self.is_alive = True

    def seconds(self) -> float:
        return float(self._clock.seconds())

    def callLater(self, delay: float, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        return KillableCall(self, self._clock.callLater(delay, self._call, call, args, named))

    def kill(self) -> None:
        """Make no more calls. Cancelling a call stays possible, even after its time."""
        self.is_alive = False

    def _call(self, call: Callable[..., Any], args: Any, named: Any) -> None:
        if self.is_alive:
            call(*args, **named)


class KillableCall:
    """See `IDelayedCall`; `call` belongs to the underlying clock."""

    def __init__(self, life: KillableClock, call: Any) -> None:
        self._process_clock = life
        self.call = call

    def cancel(self) -> None:
        if self._process_clock.is_alive or self.call.active():
            self.call.cancel()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.call, name)


class KillableLoop(SimulatedLoop):
    def __init__(
        self,
        clock: KillableClock,
        network: MemoryNetwork,
        datagrams: DatagramNetwork | None = None,
    ) -> None:
        super().__init__(clock, network, datagrams)
        self._process_clock = clock

    def open_port(self, host: str, on_datagrams: OnDatagrams) -> IDatagramPort:
        """A dead process receives nothing."""

        def unless_dead(batch: Sequence[tuple[bytes, Address]]) -> None:
            if self._process_clock.is_alive:
                on_datagrams(batch)

        return super().open_port(host, unless_dead)

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        """See `broker.client.loop.Loop`."""

        def unless_dead(channel: ISocketChannel) -> None:
            if self._process_clock.is_alive:
                connected(channel)
            else:
                channel.abort(NotConnected("the process is dead"))

        def failed_unless_dead(error: BrokerError) -> None:
            if self._process_clock.is_alive:
                failed(error)

        super().dial(endpoint, unless_dead, failed_unless_dead)


class DelayedThreads:
    """Threads whose calls take time. Each thread's calls and results keep their order.

    A call and its result each take up to `delay` seconds. In between, the call has taken effect and
    the node does not have the result.
    """

    def __init__(self, clock: KillableClock, random: Random, delay: float) -> None:
        self._clock = clock
        self._random = random
        self._delay = delay
        self._free: dict[str, float] = {}

    def write(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        """See `broker.node.threads.Threads`."""
        return self._run("writer", call, args)

    def read(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        return self._run("reader", call, args)

    def write_file(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        return self._run("file-writer", call, args)

    def run_in_pool(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]:
        return self._run("others", call, args)

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""

    def _run(self, thread: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Deferred[Any]:
        done: Deferred[Any] = Deferred()

        def execute() -> None:
            try:
                result = call(*args)
            except Exception:
                result = Failure()
            self._call_in_order(f"results of {thread}", done.callback, result)

        self._call_in_order(thread, execute)
        return done

    def _call_in_order(self, line: str, call: Callable[..., Any], *args: Any) -> None:
        now = self._clock.seconds()
        at = max(now, self._free.get(line, 0.0)) + self._random.uniform(0.0, self._delay)
        self._free[line] = at
        self._clock.callLater(at - now, call, *args)
