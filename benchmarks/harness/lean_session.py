"""A client's session without the client library: the greeting, the p2p core, and raw messages.

So what is measured is the node and not what a user's program does with the events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from zope.interface import implementer

from benchmarks.harness.failure import BenchmarkFailed
from broker.client.asyncio_face import AsyncioLoop
from broker.client.connection import Connection, connecting
from broker.client.settings import ClientSettings
from broker.errors import BrokerError
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import ISocketChannel
from broker.transport.view import LinkState, View
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import (MAGIC, PROTOCOL_VERSIONS, Goodbye, Hello, Welcome)
from broker.wire.stack import session_layers


@implementer(IStackReceiver)
class LeanSession:
    """One session with a node; a connection that breaks is the end of it.

    `received` is called with every message of the node, undecoded; it counts as consumed when the
    call returns. `writable` is called when more can be sent.
    """

    def __init__(
        self,
        endpoint: str,
        settings: ClientSettings,
        received: Callable[[bytes], None],
        writable: Callable[[], None] = lambda: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.up: asyncio.Future[None] = loop.create_future()
        """Fires when the node has accepted the session."""
        self.broken: asyncio.Future[None] = loop.create_future()
        """Fails when the session can not go on."""
        self._settings = settings
        self._received = received
        self._writable = writable
        face = AsyncioLoop(loop)
        self._driver = StackDriver(
            session_layers(settings.incarnation, settings.window_bytes), face.clock, self
        )
        self._connection = connecting(
            Connection(
                loop=face,
                endpoints=[endpoint],
                hello=self._hello,
                attach=self._attach,
                down=self._fail,
                stopped=self._fail,
            )
        )
        self._connection.start()

    @property
    def can_send(self) -> bool:
        """Whether the stack takes more now."""
        return self._driver.writable

    def send(self, data: bytes) -> None:
        """Send one encoded message."""
        self._driver.send([data])

    def say(self, message: Message) -> None:
        """Send one control message."""
        self.send(messages.encode(message))

    def close(self) -> None:
        """Say goodbye."""
        self.broken.cancel()
        self.say(Goodbye())
        self._driver.close()
        self._connection.stop()

    # ------------------------------------------------------------------ from the stack

    def messages_received(self, batch: Sequence[bytes]) -> None:
        """Messages of the node, in order."""
        for data in batch:
            try:
                self._received(data)
            except (BenchmarkFailed, BrokerError) as error:
                self._break(error)
                return
        self._driver.consumed(len(batch))

    def view_changed(self, view: View) -> None:
        """The connection came or went."""
        if view.state is LinkState.CONNECTED and not self.up.done():
            self.up.set_result(None)
        elif view.state is LinkState.DISCONNECTED:
            self._fail(view.error)

    def writable_changed(self, writable: bool) -> None:
        """The stack takes more, or no more for now."""
        if writable:
            self._writable()

    # ------------------------------------------------------------------ inside

    def _hello(self) -> Hello:
        settings = self._settings
        return Hello(
            magic=MAGIC,
            versions=PROTOCOL_VERSIONS,
            client_id=settings.client_id,
            incarnation=settings.incarnation,
            token=settings.token,
            account=settings.account,
            secret=settings.secret,
        )

    def _attach(self, channel: ISocketChannel, welcome: Welcome) -> None:
        channel.max_frame = welcome.max_frame_bytes
        self._driver.attach(channel)

    def _fail(self, error: BrokerError | None) -> None:
        self._break(BenchmarkFailed(f"the session was lost: {error or 'it was closed'}"))

    def _break(self, error: Exception) -> None:
        if not self.broken.done():
            self.broken.set_exception(error)
