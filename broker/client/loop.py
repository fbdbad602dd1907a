"""What the client needs of an event loop; each face brings its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from broker.errors import BrokerError
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel


class Promise(Protocol):
    """A result that is to come: fulfilled or broken once, awaited by the user."""

    @property
    def awaitable(self) -> Awaitable[Any]:
        """What the user awaits: a Deferred, or an asyncio Future."""

    def fulfil(self, value: Any) -> None:
        """Give the result; nothing happens if the user has given up on it."""

    def fail(self, error: Exception) -> None:
        """Say why there is none; nothing happens if the user has given up on it."""


class Loop(Protocol):
    """Time, later calls, connections and promises of one event loop."""

    @property
    def clock(self) -> IClock:
        """Monotonic time and later calls."""

    @property
    def cancelled_error(self) -> type[BaseException]:
        """What is raised in who is cancelled."""

    def make_promise(self) -> Promise:
        """A new promise."""

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call in a later turn."""

    def run_with_timeout(self, work: Coroutine[Any, Any, Any], seconds: float) -> Awaitable[Any]:
        """Run something; it is cancelled after so long, and `TimeoutError` raised."""

    def run_in_thread(self, call: Callable[[], None]) -> None:
        """Call in another thread: something that may wait for a disk, and raises nothing."""

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> Callable[[], object] | None:
        """Connect to an endpoint such as `tcp:host:port`; exactly one of both is called, later.

        What is returned, if anything, gives the attempt up when it is called: then neither is.
        """
