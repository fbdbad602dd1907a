from __future__ import annotations

import select
import socket
from contextlib import ExitStack
from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock

from broker.transport.socket.paced_port import MAX_ACCEPTS, PAUSE_SECONDS, PacedReactor

#: More than Twisted lets wait, and more than it accepts in one turn.
CONNECTIONS = 200


class StoppedReactor(Clock):
    """Its turns are calls of `doRead`."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: set[object] = set()

    def addReader(self, reader: object) -> None:
        self.readers.add(reader)

    def removeReader(self, reader: object) -> None:
        self.readers.discard(reader)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class RecordingFactory(Factory):
    def __init__(self) -> None:
        self.accepted: list[Protocol] = []

    def buildProtocol(self, addr: object) -> Protocol:
        self.accepted.append(Protocol())
        return self.accepted[-1]


def test_all_connections_wait_in_the_system_and_few_are_accepted_at_a_time() -> None:
    factory = RecordingFactory()
    reactor = StoppedReactor()
    port: Any = PacedReactor(reactor).listenTCP(0, factory, interface="127.0.0.1")
    with ExitStack() as stack:
        stack.callback(port.socket.close)
        clients = [stack.enter_context(socket.socket()) for _ in range(CONNECTIONS)]
        poll = select.poll()
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port.getHost().port))
            poll.register(client, select.POLLOUT)
        assert len(poll.poll(0)) == CONNECTIONS
        for turn in range(1, CONNECTIONS // MAX_ACCEPTS + 1):
            assert port in reactor.readers
            port.doRead()
            assert len(factory.accepted) == turn * MAX_ACCEPTS
            assert port not in reactor.readers
            reactor.advance(PAUSE_SECONDS)
        for each in factory.accepted:
            transport: Any = each.transport
            transport.socket.close()
