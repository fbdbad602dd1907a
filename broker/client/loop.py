"""Interface between the client and an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from broker.errors import BrokerError
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel
from broker.transport.socket.datagram_transport import IDatagramPort, OnDatagrams

T = TypeVar("T")


class Promise(Protocol):
    """A result that is settled once; later calls, also after cancellation, have no effect."""

    @property
    def awaitable(self) -> Awaitable[Any]:
        """A Deferred or an asyncio Future."""

    def fulfil(self, value: Any) -> None:
        """Settle with a result."""

    def fail(self, error: Exception) -> None:
        """Settle with an error."""


class Loop(Protocol):
    @property
    def clock(self) -> IClock:
        """Monotonic time and later calls."""

    @property
    def cancelled_error(self) -> type[BaseException]:
        """The exception raised in a cancelled coroutine."""

    def make_promise(self) -> Promise:
        """Return a new promise."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call in a later turn of the loop."""

    def run_with_timeout(self, work: Coroutine[Any, Any, Any], seconds: float) -> Awaitable[Any]:
        """After `seconds` cancel the coroutine and raise `TimeoutError`."""

    def run_in_thread(self, call: Callable[[], None]) -> None:
        """Call a function that may block and raises nothing."""

    def compute(self, call: Callable[[], T], done: Callable[[T], None]) -> None:
        """Call a function that may block and raises nothing; `done` gets its result in the
        loop."""

    def open_port(self, host: str, on_datagrams: OnDatagrams) -> IDatagramPort:
        """Open a UDP port, of the address family of a peer. Raises OSError."""

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> Callable[[], object] | None:
        """Connect to an endpoint such as `tcp:host:port`, then call exactly one callback.

        The returned function cancels the attempt: then neither is called.
        """
