"""A reactor with simulated child processes."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ProcessExitedAlready, ProcessTerminated
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from broker.child.connection import MAX_MESSAGE_BYTES
from broker.transport.socket import framing
from broker.wire.codec import Codec, Message


class Process:
    pid = 4711

    def __init__(self, codec: Codec[Any], connection: Any, protocol: Any, args: list[str]) -> None:
        self._codec = codec
        self._connection = connection
        self._protocol = protocol
        self.arguments = args
        self.connection: StringTransport = connection.transport
        self.signals: list[str] = []
        self.is_over = False
        protocol.makeConnection(self)

    def signalProcess(self, name: str) -> None:
        self.signals.append(name)
        if self.is_over:
            raise ProcessExitedAlready

    def received(self) -> list[Message]:
        data = self.connection.value()
        self.connection.clear()
        frames = framing.FrameDecoder(MAX_MESSAGE_BYTES).feed(data)
        return [self._codec.decode(frame) for frame in frames]

    def send(self, *messages: Message) -> None:
        encoded = [self._codec.encode(message) for message in messages]
        self.send_bytes(b"".join(framing.encode_frames(encoded)))

    def send_bytes(self, data: bytes) -> None:
        self._connection.dataReceived(data)
        if self.connection.disconnecting:
            self.close()

    def close(self) -> None:
        if self._connection.transport is not None:
            self._connection.connectionLost()

    def write_output(self, data: bytes) -> None:
        self._protocol.childDataReceived(2, data)

    def end(self, *last: Message) -> None:
        """The last messages and the end of the connection arrive later."""
        self.is_over = True
        self._protocol.processEnded(Failure(ProcessTerminated(1)))
        self.send(*last)
        self.close()


class Reactor(Clock):
    def __init__(self, codec: Codec[Any]) -> None:
        super().__init__()
        self._codec = codec
        self._connection: Any = None
        self.processes: list[Process] = []
        self.error: OSError | None = None

    def adoptStreamConnection(self, _descriptor: int, _family: int, factory: Any) -> None:
        self._connection = factory.buildProtocol(None)
        self._connection.makeConnection(StringTransport())

    def spawnProcess(
        self, protocol: Any, _executable: str, args: list[str], *_: object, **__: object
    ) -> None:
        if self.error is not None:
            raise self.error
        self.processes.append(Process(self._codec, self._connection, protocol, args))

    @property
    def newest(self) -> Process:
        return self.processes[-1]
