"""Network in memory and virtual time: addresses, latency, refusals and cuts, from a seed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from random import Random

from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError, ConnectionRefusedError, TimeoutError
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock

from broker.testing.memory_channel import MemoryChannel, make_channel_pair
from broker.transport.socket.contract import ISocketChannel

#: Seconds until a dial that nobody answers fails.
DIAL_TIMEOUT = 5.0
#: Between address and source of a path.
_BETWEEN = " from "


class MemoryPort:
    """A listening address. Its connections survive `stop_listening`."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop

    def stop_listening(self) -> None:
        """Free the address."""
        self._stop()


class MemoryNetwork:
    """Addresses are any strings.

    Each packet takes `latency` seconds plus up to `jitter`, drawn from `seed`, and the time of its
    bytes at `bytes_per_second`. Packets of one direction of a connection keep their order.
    """

    def __init__(
        self,
        clock: Clock,
        seed: int = 0,
        *,
        latency: float = 0.001,
        jitter: float = 0.0,
        bytes_per_second: float = inf,
    ) -> None:
        self._clock = clock
        self._random = Random(seed)
        self._default_delay = (latency, jitter)
        self._bytes_per_second = bytes_per_second
        self.sourced_delay: tuple[float, float] | None = None
        """Latency and jitter of connections with a `source`; None: as all others."""
        self._refuses_sources = False
        self._delays: dict[str, tuple[float, float]] = {}
        self.readable: set[str] = set()
        """Addresses whose new connections cross a network in clear text."""
        self.hosts: dict[str, str] = {}
        """Addresses of host names: empty for one that does not resolve."""
        self._listening: dict[str, Callable[[ISocketChannel], None]] = {}
        self._refused: set[str] = set()
        # Paths with a silent direction: True is that to the end that listens.
        self._held: set[tuple[str, bool]] = set()
        # Listener ends by address; ordered, so that a seed always gives the same run.
        self._connections: dict[str, dict[MemoryChannel, None]] = {}
        self._count = 0
        self.describe: Callable[[str], tuple[str, str] | None] = lambda _: None
        """Returns descriptions of the listener's end, then the other's, of a connection to an
        address. None: the address."""

    def listen(self, address: str, on_connect: Callable[[ISocketChannel], None]) -> MemoryPort:
        """Call `on_connect` with the channel of each connection to `address`.

        Raises `CannotListenError` if the address is in use.
        """
        if address in self._listening:
            taken = OSError("address already in use")
            raise CannotListenError("memory", address, taken)
        self._listening[address] = on_connect

        def stop() -> None:
            if self._listening.get(address) is on_connect:
                del self._listening[address]

        return MemoryPort(stop)

    def connect(self, address: str, source: str = "") -> Deferred[ISocketChannel]:
        """Connect after one latency. Set the channel's receiver at once.

        A connection from a `source` has the address `path(address, source)` in other methods.
        Fails with Twisted's `ConnectionRefusedError`, or with `TimeoutError` if a direction is
        silent. Can be cancelled.
        """
        call: IDelayedCall

        def cancel(_: Deferred[ISocketChannel]) -> None:
            if call.active():
                call.cancel()

        result: Deferred[ISocketChannel] = Deferred(cancel)
        path = self.path(address, source)
        delay = self._draw_delay(path)

        def answer() -> None:
            nonlocal call
            if self.is_silent(path):
                call = self._clock.callLater(DIAL_TIMEOUT - delay, result.errback, TimeoutError())
            else:
                self._connected(address, source, path, result)

        call = self._clock.callLater(delay, answer)
        return result

    def is_silent(self, path: str) -> bool:
        """Return whether a direction of a path is silent."""
        return (path, True) in self._held or (path, False) in self._held

    @staticmethod
    def path(address: str, source: str) -> str:
        """Return the address of the connections from a source."""
        return f"{address}{_BETWEEN}{source}" if source else address

    def set_delay(self, address: str, latency: float, jitter: float = 0.0) -> None:
        self._delays[address] = (latency, jitter)

    def cut(self, address: str) -> None:
        """Break all connections to `address`; packets in transit are lost."""
        for channel in list(self._connections.get(address, ())):
            channel.break_connection()

    def cut_end(self, place: str) -> None:
        """Break all connections from or to a place with a `source`."""
        for path in list(self._connections):
            if place in path.split(_BETWEEN):
                self.cut(path)

    def refuse_sources(self, refused: bool) -> None:
        """Break all connections with a `source`, and refuse them until the next call."""
        self._refuses_sources = refused
        for path in list(self._connections) if refused else ():
            if _BETWEEN in path:
                self.cut(path)

    def refuse(self, address: str) -> None:
        """Refuse connections until `heal`. Existing ones stay."""
        self._refused.add(address)

    def heal(self, address: str) -> None:
        self._refused.discard(address)

    def hold(self, path: str, *, to_listener: bool) -> None:
        """Silence one direction of all connections of a path until `release`.

        Bytes wait and connections stay, as with TCP. Connections that are made meanwhile do not
        succeed.
        """
        self._held.add((path, to_listener))
        for channel in self._connections.get(path, ()):
            (channel if to_listener else channel.other).hold()

    def release(self, path: str, *, to_listener: bool) -> None:
        self._held.discard((path, to_listener))
        for channel in list(self._connections.get(path, ())):
            (channel if to_listener else channel.other).release()

    def connections(self, address: str) -> int:
        return len(self._connections.get(address, ()))

    def _draw_delay(self, address: str) -> float:
        default = self.sourced_delay if _BETWEEN in address else None
        latency, jitter = self._delays.get(address, default or self._default_delay)
        return latency + self._random.uniform(0.0, jitter)

    def _connected(
        self, address: str, source: str, path: str, result: Deferred[ISocketChannel]
    ) -> None:
        on_connect = self._listening.get(address)
        is_refused = path in self._refused or (self._refuses_sources and source)
        if on_connect is None or is_refused:
            text = f"nobody listens at {address}"
            result.errback(ConnectionRefusedError(text))
            return
        self._count += 1
        ours = self._connections.setdefault(path, {})
        names = address, source
        if not source:
            names = self.describe(address) or (
                f"memory:{address}",
                f"memory:client-{self._count}",
            )
        server, client = make_channel_pair(
            self._clock,
            partial(self._draw_delay, path),
            names,
            lambda channel: ours.pop(channel, None),
            self._bytes_per_second,
        )
        server.confidential = client.confidential = address not in self.readable
        ours[server] = None
        on_connect(server)
        result.callback(client)
