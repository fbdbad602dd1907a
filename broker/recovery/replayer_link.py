"""One end of a connection between a node and the replay process: frames to messages and back."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import connectionDone
from twisted.protocols.basic import Int32StringReceiver
from twisted.python.failure import Failure

from broker.errors import BrokerError, FrameTooLarge
from broker.recovery.replayer_messages import MOST_BYTES, Message, decode, encode


class ReplayerLink(Int32StringReceiver):
    """A frame is a length (u32, big-endian) and a message. Bytes that are none end it."""

    MAX_LENGTH = MOST_BYTES

    def __init__(
        self,
        received: Callable[[ReplayerLink, Message], object],
        lost: Callable[[ReplayerLink, BrokerError | None], object],
        made: Callable[[ReplayerLink], object] = lambda link: None,
    ) -> None:
        """`lost` is told the error if it ended by one that the other end made."""
        self._received = received
        self._lost = lost
        self._made = made
        self._error: BrokerError | None = None

    def connectionMade(self) -> None:
        """Twisted calls it."""
        self._made(self)

    def stringReceived(self, string: bytes) -> None:
        """Twisted calls it for each frame."""
        try:
            message = decode(string)
        except BrokerError as error:
            self.drop(error)
            return
        self._received(self, message)

    def lengthLimitExceeded(self, length: int) -> None:
        """Twisted calls it for a frame that is too long."""
        self.drop(FrameTooLarge(f"a frame of {length} bytes, over {self.MAX_LENGTH}"))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Twisted calls it."""
        self._lost(self, self._error)

    def send(self, message: Message) -> None:
        """To the other end; nothing happens if that is gone."""
        self.sendString(encode(message))

    def drop(self, error: BrokerError) -> None:
        """The other end broke a rule: no more of it."""
        self._error = error
        transport: ITransport | None = self.transport
        if transport is not None:
            transport.loseConnection()
