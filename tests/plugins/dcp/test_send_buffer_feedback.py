"""Sequences that the child does not know, and ends for keep-alives."""

from __future__ import annotations

from broker.transport.arq.settings import constant_rate
from plugins.dcp.event_range import Description
from plugins.dcp.packet import ACKREQ, RETX, SYN
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import make_range
from tests.plugins.dcp.sending_buffer import MTU, Sending, bodies_of

# ------------------------------------------------------------------ unknown sequences


def test_the_packets_of_an_unknown_sequence_are_repeated() -> None:
    sending = Sending()
    first = sending.send(make_range(0, 5, 3), make_range(5, 9, 7))
    for now in (1.0, 2.0):
        sending.core.repeat_unknown(now, 0.1)
        again = sending.flush(now)
        assert bodies_of(again) == bodies_of(first)
        assert all(each.flags & (RETX | SYN | ACKREQ) == RETX | SYN | ACKREQ for each in again)
    sending.core.acknowledge(1, 0)
    sending.core.repeat_unknown(3.0, 0.1)
    assert sending.flush(3.0) == []


def test_an_unavailable_range_of_an_unknown_sequence_is_repeated() -> None:
    sending = Sending()
    sending.core.pass_missing(sending.sequence, 10)
    (first,) = sending.flush()
    assert first.flags & ACKREQ
    sending.core.repeat_unknown(1.0, 0.1)
    (again,) = sending.flush(1.0)
    assert again == first
    sending.core.acknowledge(1, 10)
    sending.core.repeat_unknown(2.0, 0.1)
    assert sending.flush(2.0) == []


def test_an_unknown_sequence_is_repeated_after_a_round_trip() -> None:
    sending = Sending()
    sending.open(Description("0b/ops.>", 1, "n2"), 20)
    sending.send(make_range(0, 5, 3))
    sending.core.repeat_unknown(0.09, 0.1)
    assert sending.flush(0.09) == []
    sending.core.repeat_unknown(0.11, 0.1)
    assert [each.sequence for each in sending.flush(0.11)] == [1]


# ------------------------------------------------------------------ ends for keep-alives


def test_the_ends_of_unacknowledged_sequences_are_stated() -> None:
    sending = Sending()
    other = sending.open(Description("0b/ops.>", 1, "n2"), 20)
    sending.core.send_control(b"message")
    sending.core.append(other, make_range(20, 30, 25))
    sending.send(make_range(0, 5, 3))
    # The sequences are not known yet.
    assert sending.core.unacknowledged_ends() == [(0, 7)]
    sending.core.acknowledge(1, 0)
    sending.core.acknowledge(2, 20)
    assert sending.core.unacknowledged_ends() == [(0, 7), (1, 5), (2, 30)]
    for index, an in ((0, 7), (1, 5)):
        sending.core.acknowledge(index, an)
    assert sending.core.unacknowledged_ends() == [(2, 30)]


def test_the_end_of_a_range_whose_parts_wait_is_not_stated() -> None:
    sending = Sending(DcpSettings(mtu=MTU, pacing=constant_rate(10_000.0, MTU)))
    sending.core.acknowledge(1, 0)
    range_ = make_range(0, 10, 5, document=bytes(20_000))
    parts, now = len(sending.send(range_)), 0.0
    while sending.core.next_timeout() is not None:
        assert sending.core.unacknowledged_ends() == []
        now += 0.1
        parts += len(sending.flush(now))
    assert parts > 20_000 // MTU and now > 1.0
    assert sending.core.unacknowledged_ends() == [(1, 10)]
