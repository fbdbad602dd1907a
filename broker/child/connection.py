"""One end of the connection between a node and a child process."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any, Final, Generic

from twisted.internet.interfaces import IPushProducer
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.errors import BrokerError
from broker.transport.socket import framing
from broker.wire.codec import Codec, M

#: The child's standard input, a socket.
DESCRIPTOR: Final = 0
#: A replay may name thousands of origins, and a page one large event.
MAX_MESSAGE_BYTES: Final = 64 << 20


@implementer(IPushProducer)
class ChildConnection(Protocol, Generic[M]):
    """A frame is a length (u32, big-endian) and a message. Invalid bytes end the connection."""

    transport: Any

    def __init__(
        self,
        codec: Codec[M],
        on_message: Callable[[M], object],
        on_lost: Callable[[BrokerError | None], object],
        on_writable_changed: Callable[[bool], object] = lambda _writable: None,
    ) -> None:
        """`on_lost` receives the error if the peer broke the protocol.

        `on_writable_changed` receives False for a full buffer, True for an empty one.
        """
        self._codec = codec
        self._received = on_message
        self._lost = on_lost
        self._writable = on_writable_changed
        self._frames = framing.FrameDecoder(MAX_MESSAGE_BYTES)
        self._error: BrokerError | None = None

    def adopt(self, reactor: Any, descriptor: int) -> None:
        """Use a copy of a connected socket's descriptor."""
        os.set_blocking(descriptor, False)
        factory = Factory.forProtocol(lambda: self)
        reactor.adoptStreamConnection(descriptor, socket.AF_UNIX, factory)

    def connectionMade(self) -> None:
        self.transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            messages = [self._codec.decode(frame) for frame in self._frames.feed(data)]
        except BrokerError as error:
            self.drop(error)
            return
        for message in messages:
            if self._error is None:
                self._received(message)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.transport = None
        self._lost(self._error)

    def send(self, message: M) -> None:
        """Ignored after the connection is lost."""
        if self.transport is not None:
            self.transport.writeSequence(framing.encode_frames([self._codec.encode(message)]))

    def drop(self, error: BrokerError) -> None:
        self._error = error
        self.close()

    def close(self) -> None:
        """Close after all sent data has left."""
        if self.transport is not None:
            # Otherwise the transport calls the producer before it closes.
            self.transport.unregisterProducer()
            self.transport.loseConnection()

    # ------------------------------------------------------------------ IPushProducer

    def pauseProducing(self) -> None:
        self._writable(False)

    def resumeProducing(self) -> None:
        self._writable(True)

    def stopProducing(self) -> None:
        """`connectionLost` follows."""
