from __future__ import annotations

import pytest

from benchmarks.harness import nats
from benchmarks.harness.failure import BenchmarkFailed

QUESTION = b"NATS/1.0 100 FlowControl Request\r\n\r\n"


def pushed(number: int) -> bytes:
    body = b"<a>%d</a>" % number
    reply = b"$JS.ACK.flights.abc.1.%d.%d.1795158000000000000.5" % (number * 100, number)
    return b"MSG f.1 1 %b %d\r\n%b\r\n" % (reply, len(body), body)


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_messages_are_counted_and_questions_answered_however_they_are_cut(size: int) -> None:
    head = b"HMSG d 1 $JS.FC.flights.abc.1 %d %d\r\n" % (len(QUESTION), len(QUESTION))
    whole = b"PONG\r\n" + pushed(1) + pushed(2) + head + QUESTION + b"\r\n" + pushed(3)
    reading = nats.MessageCounter(b"</a>")
    answers = b"".join(
        reading.feed(whole[place : place + size]) for place in range(0, len(whole), size)
    )
    assert (reading.messages, reading.last) == (3, 3)
    assert answers == b"PUB $JS.FC.flights.abc.1  0\r\n\r\n"


def test_an_error_ends_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="consumer not made"):
        nats.MessageCounter(b"</a>").feed(
            b'MSG a 2 39\r\n{"error":{"description":"consumer not made"}}\r\n'
        )
