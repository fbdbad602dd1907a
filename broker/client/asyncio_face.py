"""The client under asyncio: awaitables are Futures, addresses have the same form as elsewhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from broker.channel.clock import IClock
from broker.channel.socket import ISocketChannel
from broker.channel.socket.asyncio_tcp import AsyncioClock, AsyncioSocketChannel
from broker.client.client import Client
from broker.client.settings import client_settings
from broker.errors import BrokerError, NotConnected


class FuturePromise:
    """A promise that is an asyncio Future."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.awaitable: asyncio.Future[Any] = loop.create_future()

    def fulfil(self, value: Any) -> None:
        """See `Promise`."""
        if not self.awaitable.done():
            self.awaitable.set_result(value)

    def fail(self, error: Exception) -> None:
        """See `Promise`."""
        if not self.awaitable.done():
            self.awaitable.set_exception(error)


class AsyncioLoop:
    """An asyncio loop as the client uses it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.clock: IClock = AsyncioClock(loop)
        self._dialling: set[asyncio.Task[None]] = set()

    def promise(self) -> FuturePromise:
        """A new promise."""
        return FuturePromise(self._loop)

    def soon(self, call: Callable[[], None]) -> None:
        """Call in a later turn."""
        self._loop.call_soon(call)

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        """Connect; see `Loop.dial`. Endpoints are `tcp:HOST:PORT`, `tls:HOST:PORT`, `unix:PATH`."""
        task = self._loop.create_task(self._dial(endpoint, connected, failed))
        # The loop keeps only weak references to its tasks.
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)

    async def _dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        def protocol() -> AsyncioSocketChannel:
            return AsyncioSocketChannel(connected)

        try:
            kind, _, rest = endpoint.partition(":")
            if kind == "unix":
                await self._loop.create_unix_connection(protocol, rest)
                return
            host, _, port = rest.rpartition(":")
            if kind not in ("tcp", "tls") or not host or not port.isdigit():
                raise ValueError("an endpoint is tcp:HOST:PORT, tls:HOST:PORT or unix:PATH")
            context = ssl.create_default_context() if kind == "tls" else None
            await self._loop.create_connection(
                protocol, host.replace("\\:", ":"), int(port), ssl=context
            )
        except (OSError, ValueError) as error:
            failed(NotConnected(f"{endpoint}: {error}"))


class AsyncioClient(Client):
    """A client that is an asynchronous context manager: it closes itself at the end."""

    async def __aenter__(self) -> AsyncioClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def connect(
    *endpoints: str,
    client_id: str = "",
    account: str = "",
    secret: str = "",
    state: Path | None = None,
    **bounds: int,
) -> AsyncioClient:
    """A client that begins to connect at once, to the first of `endpoints` that answers.

    See `client_settings` for the other arguments. To be called where an asyncio loop runs.
    """
    settings = client_settings(
        client_id=client_id, account=account, secret=secret, state=state, **bounds
    )
    loop = AsyncioLoop(asyncio.get_running_loop())
    client = AsyncioClient(loop, endpoints or ("tcp:127.0.0.1:8765",), settings)
    client.start()
    return client
