"""Sequences of one connection: packets, repairs and bounds."""

from __future__ import annotations

from broker.transport.arq.mac import TAG_BYTES
from plugins.dcp.event_range import Description, EventRange, decode_range
from plugins.dcp.incoming_sequences import decode_opening
from plugins.dcp.packet import ACKREQ, EXTENDED_BYTES, NACK, RETX, STREAM, SYN
from plugins.dcp.parts import MOST_RANGE_BYTES, PartKey, PartStore
from plugins.dcp.receiver import Nack
from plugins.dcp.send_buffer import EVENTS, PART
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import DESCRIPTION, make_event, make_range
from tests.plugins.dcp.sending_buffer import LARGE, MTU, Sending, bodies_of

ROOM = MTU - EXTENDED_BYTES - TAG_BYTES

# ------------------------------------------------------------------ descriptions


def test_packets_describe_their_sequence_until_one_is_acknowledged() -> None:
    sending = Sending()
    first = sending.send(make_range(0, 5, 3), make_range(5, 9, 7))
    assert [each.flags & (SYN | ACKREQ) for each in first] == [SYN | ACKREQ] * 2
    start, body = decode_opening(first[0].body)
    assert (start.index, start.description, start.an) == (1, DESCRIPTION, 0)
    assert body[:1] == EVENTS and decode_range(0, 5, 1, body[1:]) == make_range(0, 5, 3)
    sending.core.acknowledge(1, 0)
    (later,) = sending.send(make_range(9, 12, 11))
    assert not later.flags & SYN and later.body == EVENTS + make_range(9, 12, 11).entries[0]
    assert (later.sequence, later.epoch, later.connection) == (1, 3, 7)


def test_a_sequence_is_opened_once() -> None:
    sending = Sending()
    assert sending.open(DESCRIPTION, 50) is sending.sequence
    other = sending.open(Description("0b/ops.>", 1, "n2"), 20)
    assert other.index == 2 and other.sender.end == 20
    assert sending.core.find(DESCRIPTION.key) is sending.sequence
    assert other.index == 2 and [*sending.core] == [sending.sequence, other]


def test_the_end_of_an_earlier_epoch_comes_before_the_next_one() -> None:
    sending = Sending()
    assert sending.send(make_range(0, 5)) == []
    later = sending.open(Description(DESCRIPTION.flow, 2, "n1"))
    sending.core.append(later, make_range(0, 2, 1))
    assert [(each.sequence, each.an) for each in sending.flush()] == [(1, 5), (2, 2)]


def test_an_unavailable_range_describes_an_unknown_sequence() -> None:
    sending = Sending()
    sending.core.pass_missing(sending.sequence, 10)
    (packet,) = sending.flush()
    assert packet.flags & (NACK | RETX | SYN) == NACK | RETX | SYN
    assert (packet.previous, packet.an) == (0, 10)
    assert decode_opening(packet.body)[0].description == DESCRIPTION
    sending.core.acknowledge(1, 10)
    sending.core.pass_missing(sending.sequence, 20)
    (packet,) = sending.flush()
    assert not packet.flags & SYN and packet.body == b""


# ------------------------------------------------------------------ parts


def test_a_large_range_is_sent_in_parts() -> None:
    sending = Sending()
    packets = sending.send(make_range(0, 10, 5, document=LARGE))
    assert len(packets) > 5
    assert {(each.previous, each.an, each.flags & RETX) for each in packets} == {(0, 10, 0)}
    store = PartStore()
    found = [store.add_part(PartKey(1, 0, 10), body[1:]) for body in bodies_of(packets)]
    assert found[:-1] == [None] * (len(packets) - 1)
    assert found[-1] == make_range(0, 10, 5, document=LARGE).entries[0]
    assert all(body[:1] == PART for body in bodies_of(packets))


def test_repaired_parts_are_cut_as_at_first_although_the_sequence_became_known() -> None:
    sending = Sending()
    first = sending.send(make_range(0, 10, 5, document=LARGE))
    sending.core.acknowledge(1, 0)
    assert sending.sequence.is_known
    again = sending.repair(1.0)
    assert not any(each.flags & SYN for each in again)
    assert bodies_of(again) == bodies_of(first)
    some = sending.repair(2.0, 0, 1, 4)
    assert bodies_of(some) == [bodies_of(first)[number] for number in (1, 4)]
    assert all(each.flags & RETX for each in again + some)


def test_parts_of_both_cuts_make_one_range() -> None:
    sending = Sending()
    first = bodies_of(sending.send(make_range(0, 10, 5, document=LARGE)))
    sending.core.acknowledge(1, 0)
    again = bodies_of(sending.repair(1.0, 0, *range(1, len(first), 2)))
    store = PartStore()
    found = [store.add_part(PartKey(1, 0, 10), body[1:]) for body in first[::2] + again]
    assert found[-1] == make_range(0, 10, 5, document=LARGE).entries[0]


def test_a_range_that_fits_without_its_description_is_repaired_whole() -> None:
    sending = Sending()
    size = ROOM - len(EVENTS) - len(make_range(0, 10, 5, document=b"").entries[0])
    range_ = make_range(0, 10, 5, document=bytes(size))
    assert [body[:1] for body in bodies_of(sending.send(range_))] == [PART, PART]
    sending.core.acknowledge(1, 0)
    (packet,) = sending.repair(1.0, 0, 1)
    assert packet.body == EVENTS + range_.entries[0]


def test_numbers_of_parts_that_do_not_exist_are_ignored() -> None:
    sending = Sending()
    first = sending.send(make_range(0, 10, 5, document=LARGE))
    again = sending.repair(1.0, 0, 2, 60_000)
    assert bodies_of(again) == bodies_of(first)[2:3]


def test_parts_of_another_range_do_not_limit_a_repair() -> None:
    sending = Sending()
    sending.core.acknowledge(1, 0)
    sending.send(make_range(0, 10, 5, document=LARGE), make_range(10, 20, 15))
    packets = sending.repair(1.0, 0, 1)
    assert [(each.previous, each.an) for each in packets] == [(0, 10), (10, 20)]


def test_a_range_above_the_most_bytes_is_stated_as_unavailable() -> None:
    sending = Sending()
    sending.core.acknowledge(1, 0)
    large = make_event(8, bytes(MOST_RANGE_BYTES))
    range_ = EventRange.of_events(0, 20, [make_event(3), large, make_event(15)])
    packets = sending.send(range_)
    assert [(each.flags & NACK, each.previous, each.an) for each in packets] == [
        *((0, 0, 3), (NACK, 3, 8), (0, 8, 20)),
    ]
    assert bodies_of(packets)[::2] == [EVENTS + range_.entries[number] for number in (0, 2)]
    assert sending.core.dropped_bytes == len(range_.entries[1]) and not sending.core.refused


def test_a_range_of_the_most_bytes_is_sent_in_parts() -> None:
    sending = Sending()
    sending.core.acknowledge(1, 0)
    entry_bytes = len(make_range(0, 10, 5, document=b"").entries[0])
    packets = sending.send(make_range(0, 10, 5, document=bytes(MOST_RANGE_BYTES - entry_bytes)))
    assert packets and not any(each.flags & NACK for each in packets)
    assert sending.core.dropped_bytes == 0


# ------------------------------------------------------------------ order and bounds


def test_control_messages_leave_first_then_repairs() -> None:
    sending = Sending()
    sending.send(make_range(0, 5, 3))
    sending.core.answer(1, Nack(0, []), None, 1.0, 0.1)
    sending.core.append(sending.sequence, make_range(5, 9, 7))
    sending.core.send_control(b"message")
    packets = sending.flush(1.0)
    assert [(each.sequence, each.previous, each.an) for each in packets] == [
        *((0, 0, 7), (1, 0, 5), (1, 5, 9)),
    ]
    assert packets[0].flags & (STREAM | ACKREQ) == STREAM | ACKREQ
    assert sending.core.repaired == 1


def test_an_acknowledged_repair_is_not_sent() -> None:
    sending = Sending()
    sending.send(make_range(0, 5, 3))
    sending.core.answer(1, Nack(0, []), None, 1.0, 0.1)
    sending.core.acknowledge(1, 5)
    assert sending.flush(1.0) == [] and sending.core.repaired == 0


def test_sent_ranges_are_kept_for_a_time() -> None:
    sending = Sending(DcpSettings(mtu=MTU, send_seconds=10.0))
    sending.send(make_range(0, 5, 3))
    sending.send(make_range(5, 9, 7), now=5.0)
    sending.flush(11.0)
    assert [(each.flags & NACK, each.an) for each in sending.repair(11.0)] == [(NACK, 5), (0, 9)]


def test_kept_bytes_are_bounded() -> None:
    sending = Sending(DcpSettings(mtu=MTU, send_bytes=500))
    for an in range(10):
        sending.send(make_range(an, an + 1, an + 1, document=bytes(83)))
    # Each has 101 bytes.
    assert sending.sequence.sender.kept_count == 4
    repaired = sending.repair(1.0)
    assert [(each.flags & NACK, each.previous, each.an) for each in repaired] == [
        *((NACK, 0, 6), (0, 6, 7), (0, 7, 8), (0, 8, 9), (0, 9, 10)),
    ]


def test_added_ranges_are_noted_once() -> None:
    sending = Sending()
    assert not sending.core.take_has_grown()
    sending.send(make_range(0, 5))
    assert sending.core.take_has_grown() and not sending.core.take_has_grown()


def test_requests_for_unknown_sequences_are_ignored() -> None:
    sending = Sending()
    sending.core.answer(9, Nack(0, []), None, 1.0, 0.1)
    sending.core.acknowledge(9, 5)
    assert sending.flush(1.0) == []


def test_a_byte_that_was_not_sent_is_not_acknowledged() -> None:
    sending = Sending()
    sending.core.send_control(b"message")
    sending.flush()
    sending.core.acknowledge(0, 8)
    assert not sending.core.control.is_acknowledged
    sending.core.acknowledge(0, 7)
    assert sending.core.control.is_acknowledged
