"""One end of a connection between a node and the replay process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError
from broker.replay.replayer_messages import MAX_MESSAGE_BYTES, Message, decode, encode
from broker.transport.socket import framing


@implementer(IPushProducer)
class ReplayerConnection(Protocol):
    """A frame is a length (u32, big-endian) and a message. Invalid bytes end the connection."""

    transport: Any

    def __init__(
        self,
        on_message: Callable[[ReplayerConnection, Message], object],
        on_lost: Callable[[ReplayerConnection, BrokerError | None], object],
        on_made: Callable[[ReplayerConnection], object] = lambda connection: None,
        on_writable_changed: Callable[
            [ReplayerConnection, bool], object
        ] = lambda connection, on_writable_changed: None,
    ) -> None:
        """`on_lost` receives the error if the peer broke the protocol.

        `on_writable_changed` receives False when the buffer is full and True when it is empty
        again.
        """
        self._received = on_message
        self._lost = on_lost
        self._made = on_made
        self._writable = on_writable_changed
        self._frames = framing.FrameDecoder(MAX_MESSAGE_BYTES)
        self._error: BrokerError | None = None

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.registerProducer(self, True)
        self._made(self)

    def dataReceived(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            messages = [decode(frame) for frame in self._frames.feed(data)]
        except BrokerError as error:
            self.drop(error)
            return
        for message in messages:
            if self._error is None:
                self._received(self, message)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._lost(self, self._error)

    def send(self, message: Message) -> None:
        """Send a message; ignored after the connection is lost."""
        if self.transport is not None:
            self.transport.writeSequence(framing.encode_frames([encode(message)]))

    def drop(self, error: BrokerError) -> None:
        self._error = error
        self.close()

    def close(self) -> None:
        """Close the connection after all sent data has left."""
        if self.transport is not None:
            # Otherwise the transport calls the producer before it closes.
            self.transport.unregisterProducer()
            self.transport.loseConnection()

    # ------------------------------------------------------------------ IPushProducer

    def pauseProducing(self) -> None:
        self._writable(self, False)

    def resumeProducing(self) -> None:
        self._writable(self, True)

    def stopProducing(self) -> None:
        """Part of IPushProducer; `connectionLost` follows."""
