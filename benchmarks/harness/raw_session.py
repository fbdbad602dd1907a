"""A client session without the client library, to measure the node alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from zope.interface import implementer

from benchmarks.harness.failure import BenchmarkFailed
from broker.client.asyncio_face import AsyncioLoop
from broker.client.connection import Connection, make_connection_machine
from broker.client.settings import ClientSettings
from broker.errors import BrokerError
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import ISocketChannel
from broker.transport.view import LinkState, View
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import Goodbye, Welcome
from broker.wire.stack import session_layers


@implementer(IStackReceiver)
class RawSession:
    """One session with a node; it ends when its connection breaks.

    `received` is called with each raw message, consumed when the call returns, `writable` when more
    can be sent.
    """

    def __init__(
        self,
        endpoint: str,
        settings: ClientSettings,
        received: Callable[[bytes], None],
        writable: Callable[[], None] = lambda: None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.connected: asyncio.Future[None] = loop.create_future()
        """The node has accepted the session."""
        self.lost: asyncio.Future[None] = loop.create_future()
        """Fails when the session has ended."""
        self._settings = settings
        self._received = received
        self._writable = writable
        face = AsyncioLoop(loop)
        self._link = StackDriver(
            session_layers(settings.incarnation, settings.window_bytes), face.clock, self
        ).join("node")
        self._connection = make_connection_machine(
            Connection(
                loop=face,
                endpoints=[endpoint],
                make_hello=settings.make_hello,
                credentials=settings.credentials,
                attach=self._attach,
                on_down=self._fail,
                on_stopped=self._fail,
            )
        )
        self._connection.start()

    @property
    def can_send(self) -> bool:
        return self._link.is_writable

    def send(self, data: bytes) -> None:
        self._link.send([data])

    def send_message(self, message: Message) -> None:
        self.send(messages.encode(message))

    def close(self) -> None:
        self.lost.cancel()
        self.send_message(Goodbye())
        self._link.close()
        self._connection.stop()

    # ------------------------------------------------------------------ from the stack

    def messages_received(self, peer: object, batch: Sequence[bytes]) -> None:
        for data in batch:
            try:
                self._received(data)
            except (BenchmarkFailed, BrokerError) as error:
                self._set_lost(error)
                return
        self._link.consumed(len(batch))

    def view_changed(self, peer: object, view: View) -> None:
        if view.state is LinkState.CONNECTED and not self.connected.done():
            self.connected.set_result(None)
        elif view.state is LinkState.DISCONNECTED:
            self._fail(view.error)

    def writable_changed(self, peer: object, writable: bool) -> None:
        if writable:
            self._writable()

    # ------------------------------------------------------------------ inside

    def _attach(self, channel: ISocketChannel, welcome: Welcome) -> None:
        channel.max_frame = welcome.max_frame_bytes
        self._link.attach(channel)

    def _fail(self, error: BrokerError | None) -> None:
        self._set_lost(BenchmarkFailed(f"the session was lost: {error or 'it was closed'}"))

    def _set_lost(self, error: Exception) -> None:
        if not self.lost.done():
            self.lost.set_exception(error)
