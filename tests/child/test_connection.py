from __future__ import annotations

import struct

import pytest
from twisted.internet.testing import StringTransport

from broker.child.connection import MAX_MESSAGE_BYTES, ChildConnection
from broker.errors import BrokerError, FrameTooLarge, ProtocolError
from broker.replay import replayer_messages as messages


class End:
    def __init__(self) -> None:
        self.received: list[messages.Message] = []
        self.lost: list[BrokerError | None] = []
        self.writable: list[bool] = []
        self.link = ChildConnection[messages.Message](
            messages.CODEC, self.received.append, self.lost.append, self.writable.append
        )
        self.transport = StringTransport()
        self.link.makeConnection(self.transport)


def encoded(*sent: messages.Message) -> bytes:
    end = End()
    for message in sent:
        end.link.send(message)
    return bytes(end.transport.value())


WORDS = (messages.More(1, 2), messages.Status(), messages.Page(3, 0, (b"x" * 3_000, b"y")))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1_000, 10_000])
def test_messages_are_complete_for_any_split_of_their_bytes(size: int) -> None:
    data = encoded(*WORDS)
    end = End()
    for start in range(0, len(data), size):
        end.link.dataReceived(data[start : start + size])
    assert end.received == list(WORDS)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (struct.pack(">I", MAX_MESSAGE_BYTES + 1), FrameTooLarge),
        (struct.pack(">I", 1) + b"\xc1", ProtocolError),
        (b"GET / HTTP/1.1\r\n\r\n", FrameTooLarge),
    ],
)
def test_invalid_bytes_end_the_connection(data: bytes, error: type[BrokerError]) -> None:
    end = End()
    end.link.dataReceived(encoded(WORDS[0]))
    end.link.dataReceived(data + encoded(WORDS[1]))
    assert end.transport.producer is None
    assert end.transport.disconnecting
    assert end.received == [WORDS[0]]
    end.link.connectionLost()
    assert [type(each) for each in end.lost] == [error]


def test_changes_of_writability_are_reported() -> None:
    end = End()
    assert end.transport.producer is end.link
    assert end.transport.streaming
    end.link.pauseProducing()
    end.link.resumeProducing()
    assert end.writable == [False, True]
