"""The client under asyncio: its awaitables are Futures."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from broker.client.address import NO_FILES, TlsFiles, make_tls_context, parse_address
from broker.client.client import Client
from broker.client.loop import T
from broker.client.settings import client_settings
from broker.errors import BrokerError, NotConnected
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel
from broker.transport.socket.asyncio_tcp import AsyncioClock, AsyncioSocketChannel
from broker.transport.socket.datagram_transport import IDatagramPort, OnDatagrams

#: Seconds for one endpoint.
DIAL_TIMEOUT = 10.0


class FuturePromise:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.awaitable: asyncio.Future[Any] = loop.create_future()

    def fulfil(self, value: Any) -> None:
        if not self.awaitable.done():
            self.awaitable.set_result(value)

    def fail(self, error: Exception) -> None:
        if not self.awaitable.done():
            self.awaitable.set_exception(error)


class AsyncioLoop:
    """Implementation of `Loop`."""

    cancelled_error: type[BaseException] = asyncio.CancelledError

    def __init__(self, loop: asyncio.AbstractEventLoop, files: TlsFiles = NO_FILES) -> None:
        self._loop = loop
        self._files = files
        self.clock: IClock = AsyncioClock(loop)
        self._dialling: set[asyncio.Task[None]] = set()

    def make_promise(self) -> FuturePromise:
        return FuturePromise(self._loop)

    def call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def run_with_timeout(self, work: Coroutine[Any, Any, Any], seconds: float) -> Awaitable[Any]:
        return asyncio.wait_for(work, seconds)

    def run_in_thread(self, call: Callable[[], None]) -> None:
        """Run in the executor's threads, which are joined when the loop ends."""
        self._loop.run_in_executor(None, call)

    def compute(self, call: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run in the executor's threads."""

        def end(future: asyncio.Future[T]) -> None:
            if not future.cancelled():
                done(future.result())

        self._loop.run_in_executor(None, call).add_done_callback(end)

    def open_port(self, host: str, on_datagrams: OnDatagrams) -> IDatagramPort:
        # Its interfaces are those of Twisted, which most clients under asyncio do not need.
        from broker.transport.socket.asyncio_udp import open_port

        return open_port(self._loop, host, on_datagrams)

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> Callable[[], object]:
        task = self._loop.create_task(self._dial(endpoint, connected, failed))
        # The loop has only weak references to its tasks.
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return task.cancel

    async def _dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        def protocol() -> AsyncioSocketChannel:
            return AsyncioSocketChannel(connected)

        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                if endpoint.startswith("unix:"):
                    await self._loop.create_unix_connection(protocol, endpoint[5:])
                    return
                kind, host, port = parse_address(endpoint)
                context = make_tls_context(self._files) if kind == "tls" else None
                await self._loop.create_connection(protocol, host, port, ssl=context)
        except TimeoutError:
            failed(NotConnected(f"{endpoint}: no answer in {DIAL_TIMEOUT:g} s"))
        except (BrokerError, OSError, ValueError) as error:
            failed(NotConnected(f"{endpoint}: {_describe_error(error)}"))


def _describe_error(error: Exception) -> str:
    """Return the system's text: asyncio names the call that failed, not the cause."""
    if isinstance(error, OSError) and not isinstance(error, socket.gaierror | ssl.SSLError):
        return os.strerror(error.errno) if error.errno else str(error)
    return getattr(error, "strerror", None) or str(error)


class AsyncioClient(Client):
    """Asynchronous context manager, which closes the client."""

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
    token_file: Path | None = None,
    trust: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    longest_wait: float = 30.0,
    allow_cleartext: bool = False,
    **bounds: int,
) -> AsyncioClient:
    """Return a client that connects to the first of `endpoints` that answers.

    `trust`, `certificate` and `key` are PEM files for `tls:` endpoints: authorities (default: the
    system's), and the client's certificate with its key. `client_settings` describes the other
    arguments. An asyncio loop must run. Raises `ConfigurationError` if a file is not usable.
    """
    settings = client_settings(
        client_id=client_id,
        account=account,
        secret=secret,
        token_file=token_file,
        certificate=certificate,
        key=key,
        state=state,
        longest_wait=longest_wait,
        allow_cleartext=allow_cleartext,
        **bounds,
    )
    files = TlsFiles(trust, certificate, key)
    if not files.is_default:
        make_tls_context(files)
    loop = AsyncioLoop(asyncio.get_running_loop(), files)
    client = AsyncioClient(loop, endpoints or ("tcp:127.0.0.1:8765",), settings)
    client.start()
    return client
