"""The client under Twisted: awaitables are Deferreds, addresses are endpoint strings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import IReactorTime
from twisted.python.failure import Failure

from broker.channel.clock import IClock
from broker.channel.socket import ISocketChannel
from broker.channel.socket.tcp import TcpChannelFactory
from broker.client.client import Client
from broker.client.settings import client_settings
from broker.errors import BrokerError, NotConnected


class DeferredPromise:
    """A promise that is a Deferred."""

    def __init__(self) -> None:
        self.awaitable: Deferred[Any] = Deferred()

    def fulfil(self, value: Any) -> None:
        """See `Promise`."""
        if not self.awaitable.called:
            self.awaitable.callback(value)

    def fail(self, error: Exception) -> None:
        """See `Promise`."""
        if not self.awaitable.called:
            self.awaitable.errback(error)


class TwistedLoop:
    """A reactor as the client uses it."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.clock: IClock = cast(IClock, IReactorTime(reactor))

    def promise(self) -> DeferredPromise:
        """A new promise."""
        return DeferredPromise()

    def soon(self, call: Callable[[], None]) -> None:
        """Call in a later turn."""
        self._reactor.callLater(0, call)

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        """Connect; see `Loop.dial`. `endpoint` is any of Twisted's client endpoint strings."""

        def refused(failure: Failure) -> None:
            failed(NotConnected(f"{endpoint}: {failure.getErrorMessage()}"))

        try:
            attempt = clientFromString(self._reactor, endpoint).connect(
                TcpChannelFactory(connected)
            )
        except ValueError as error:
            problem = NotConnected(f"endpoint {endpoint!r}: {error}")
            self._reactor.callLater(0, failed, problem)
            return
        attempt.addErrback(refused)


def connect(
    *endpoints: str,
    client_id: str = "",
    account: str = "",
    secret: str = "",
    state: Path | None = None,
    reactor: Any = None,
    **bounds: int,
) -> Client:
    """A client that begins to connect at once, to the first of `endpoints` that answers.

    See `client_settings` for the other arguments. Close it with `close()`.
    """
    if reactor is None:
        from twisted.internet import reactor as installed

        reactor = installed
    settings = client_settings(
        client_id=client_id, account=account, secret=secret, state=state, **bounds
    )
    client = Client(TwistedLoop(reactor), endpoints or ("tcp:127.0.0.1:8765",), settings)
    client.start()
    return client
