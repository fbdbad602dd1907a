from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from broker.transport.arq import wire
from broker.transport.arq.receive_window import ReceiveWindow
from tests.transport.arq.datagram_members import Members


@contextmanager
def seconds(most: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"more than {most} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(most)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_member_with_false_numbers_does_not_stop_others() -> None:
    members = Members(0, "ab")
    here, there = members.all
    here.send([b"first"])
    members.run(lambda: bool(there.heard["a"]), 1.0)
    datagram = here.core._mac.add_tag(
        wire.encode_data(here.core._session, 2**60, 0, 7, [b"\0\0\0\1x"])
    )
    with seconds(5):
        there.core.receive([(datagram, members.address("a"))], members.clock.seconds())
    assert there.heard["a"] == [b"first"]


def test_skipping_again_changes_nothing() -> None:
    reception: ReceiveWindow[int] = ReceiveWindow(16, 0.002, credit=False)
    for number in (1, 3, 4, 7):
        reception.insert(number, number, 0.0)
    assert reception.skip_to(6) == 2
    assert (reception.received, reception.newest) == (5, 7)
    assert list(reception.missing) == [6]
    assert reception.skip_to(7) == 1
    assert reception.received == 7
    assert reception.take_ready() == [1, 3, 4, 7]
    assert reception.skip_to(3) == 0
    assert reception.skip_to(2**60) == 2**60 - 8
    assert not reception.missing
