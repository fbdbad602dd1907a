"""The sending end of one sequence."""

from __future__ import annotations

from random import Random

import pytest

from broker.streams.contract import CarriedEvent
from plugins.dcp.event_range import EventRange
from plugins.dcp.receiver import Nack
from plugins.dcp.sender import Sent, SequenceSender, Unavailable

ROOM = 1_000
ENTRY_BYTES = 17 + len(b"r") + len(b"<e/>")
#: Previous AN, AN, and ANs of events; or what is not available.
Item = tuple[int, int, list[int]] | Unavailable


def make_range(previous: int, upto: int, *ans: int) -> EventRange:
    events = [CarriedEvent((1, an), b"r", b"<e/>") for an in ans]
    return EventRange.of_events(previous, upto, events)


def make_sender(*ranges: EventRange, start: int = 0) -> SequenceSender[EventRange]:
    sender = SequenceSender[EventRange](start, EventRange)
    for each in ranges:
        sender.append(each)
    return sender


def items_of(found: list[Sent[EventRange] | Unavailable]) -> list[Item]:
    return [
        each
        if isinstance(each, Unavailable)
        else (each.range.previous, each.range.upto, [e.mark[1] for e in each.range.events])
        for each in found
    ]


def send_all(sender: SequenceSender[EventRange], room: int = ROOM, now: float = 0.0) -> list[Item]:
    found = []
    while sender.is_waiting:
        found.append(sender.next_to_send(room, now))
    assert sender.waiting_bytes == 0
    return items_of(found)


def make_sent(*ranges: EventRange) -> SequenceSender[EventRange]:
    """Return a sender that has sent these ranges at time 0."""
    sender = make_sender(*ranges)
    send_all(sender)
    return sender


TENS = [make_range(start, start + 10, start + 5) for start in range(0, 50, 10)]


# ------------------------------------------------------------------ previous AN


def test_the_previous_an_is_the_end_of_the_last_range_that_was_sent() -> None:
    sender = make_sender(make_range(10, 12, 12), start=10)
    assert send_all(sender) == [(10, 12, [12])]
    # The child's query leaves out 13 to 17.
    for empty in ((12, 14), (14, 17)):
        sender.append(make_range(*empty))
        assert not sender.is_waiting
    sender.append(make_range(17, 20, 18, 20))
    assert send_all(sender) == [(12, 20, [18, 20])]
    assert (sender.sent_upto, sender.end) == (20, 20)


def test_empty_ranges_ride_with_the_next_event_although_others_wait() -> None:
    sender = make_sender(make_range(0, 2, 1), make_range(2, 5), make_range(5, 7, 6))
    assert send_all(sender) == [(0, 2, [1]), (2, 7, [6])]


def test_empty_ranges_leave_alone_when_they_are_flushed() -> None:
    sender = make_sender(make_range(0, 2, 1), make_range(2, 5))
    sender.flush_empty()
    sender.flush_empty()
    sender.append(make_range(5, 7, 6))
    assert send_all(sender) == [(0, 2, [1]), (2, 5, []), (5, 7, [6])]
    sender.flush_empty()
    assert not sender.is_waiting


def test_a_range_that_was_sent_is_not_sent_again() -> None:
    sender = make_sender(make_range(0, 10, 2, 5, 8))
    assert send_all(sender) == [(0, 10, [2, 5, 8])]
    sender.append(make_range(3, 10, 5, 8))
    assert not sender.is_waiting
    sender.append(make_range(4, 14, 5, 8, 12))
    assert send_all(sender) == [(10, 14, [12])]


def test_a_range_is_split_into_rooms() -> None:
    sender = make_sender(make_range(0, 10, 2, 5, 8), make_range(10, 12, 11))
    assert sender.waiting_bytes == 4 * ENTRY_BYTES
    sender.next_to_send(2 * ENTRY_BYTES, 0.0)
    assert sender.waiting_bytes == 2 * ENTRY_BYTES
    assert send_all(sender, 1) == [(5, 10, [8]), (10, 12, [11])]


@pytest.mark.parametrize("seed", range(30))
def test_ranges_in_any_packing_are_a_chain_with_all_events(seed: int) -> None:
    random = Random(seed)
    sender, events, current, found = make_sender(), list[int](), 0, list[Item]()
    for _ in range(40):
        upto = current + random.randint(1, 9)
        count = random.choice([0, 0, 1, upto - current])
        ans = sorted(random.sample(range(current + 1, upto + 1), count))
        sender.append(make_range(current, upto, *ans))
        events, current = events + ans, upto
        if random.random() < 0.2:
            sender.flush_empty()
        if random.random() < 0.5:
            found += send_all(sender, random.choice([1, 3 * ENTRY_BYTES, ROOM]))
    sender.flush_empty()
    found += send_all(sender)
    ranges = [each for each in found if not isinstance(each, Unavailable)]
    assert [previous for previous, _, _ in ranges] == [0, *(upto for _, upto, _ in ranges)][:-1]
    assert [an for _, _, ans in ranges for an in ans] == events
    assert ranges[-1][1] == current == sender.sent_upto


# ------------------------------------------------------------------ missing ranges


def test_missing_ranges_are_stated_in_order() -> None:
    sender = make_sender(make_range(0, 5, 3), make_range(5, 8))
    sender.pass_missing(12)
    sender.append(make_range(15, 20, 16))
    assert send_all(sender) == [
        *((0, 5, [3]), (5, 8, []), Unavailable(8, 12)),
        *(Unavailable(12, 15), (15, 20, [16])),
    ]


def test_a_missing_range_that_was_passed_is_not_stated_again() -> None:
    sender = make_sent(make_range(0, 5, 3))
    for upto in (0, 4, 5):
        sender.pass_missing(upto)
    assert not sender.is_waiting
    sender.pass_missing(9)
    sender.pass_missing(9)
    assert send_all(sender) == [Unavailable(5, 9)]
    assert sender.sent_upto == sender.end == 9


def test_dropped_ranges_are_stated() -> None:
    sender = make_sender(*TENS)
    assert sender.drop_waiting(ENTRY_BYTES + 1) == 2 * ENTRY_BYTES
    assert sender.waiting_bytes == 3 * ENTRY_BYTES
    assert send_all(sender) == [
        *(Unavailable(0, 20), (20, 30, [25])),
        *((30, 40, [35]), (40, 50, [45])),
    ]


def test_dropped_ranges_include_missing_and_empty_ones_between() -> None:
    sender = make_sender(make_range(0, 5, 3), make_range(9, 12), make_range(12, 15, 14))
    assert sender.drop_waiting(10**9) == 2 * ENTRY_BYTES
    assert sender.drop_waiting(1) == 0
    sender.append(make_range(15, 20, 16))
    assert send_all(sender) == [Unavailable(0, 15), (15, 20, [16])]


# ------------------------------------------------------------------ acknowledgements


def test_an_acknowledgement_frees_what_it_covers() -> None:
    sender = make_sent(*TENS)
    assert sender.kept_count == 5 and not sender.is_acknowledged
    assert sender.acknowledge(29) == 2 * ENTRY_BYTES
    assert (sender.kept_count, sender.acknowledged) == (3, 29)
    assert sender.acknowledge(10) == 0
    assert sender.acknowledged == 29
    assert sender.acknowledge(50) == 3 * ENTRY_BYTES
    assert sender.kept_count == 0 and sender.is_acknowledged
    assert sender.skipped_bytes == 0


def test_freed_ranges_are_not_kept() -> None:
    sender = make_sender(*TENS[:2])
    sent = [sender.next_to_send(ROOM, 0.0) for _ in range(2)]
    sender.acknowledge(10)
    assert [isinstance(each, Sent) and each.is_kept for each in sent] == [False, True]


def test_an_acknowledgement_ahead_skips_what_the_child_has() -> None:
    sender = make_sender(*TENS[:2], make_range(20, 30, 22, 25, 28), TENS[3])
    sender.next_to_send(ROOM, 0.0)
    assert sender.acknowledge(25) == ENTRY_BYTES
    assert sender.skipped_bytes == 3 * ENTRY_BYTES
    assert sender.waiting_bytes == 2 * ENTRY_BYTES
    assert send_all(sender) == [(25, 30, [28]), (30, 40, [35])]


def test_an_acknowledgement_ahead_of_all_that_this_node_has() -> None:
    sender = make_sender(*TENS[:2])
    sender.acknowledge(35)
    assert sender.skipped_bytes == 2 * ENTRY_BYTES
    assert not sender.is_waiting and sender.is_acknowledged
    sender.append(TENS[2])
    assert not sender.is_waiting and sender.skipped_bytes == 3 * ENTRY_BYTES
    sender.append(make_range(30, 40, 33, 38))
    assert send_all(sender) == [(35, 40, [38])]
    assert sender.skipped_bytes == 4 * ENTRY_BYTES


def test_an_acknowledgement_ahead_skips_missing_and_empty_ranges() -> None:
    sender = make_sender(make_range(0, 5), make_range(8, 12, 11))
    sender.acknowledge(6)
    assert send_all(sender) == [Unavailable(5, 8), (8, 12, [11])]
    sender.append(make_range(12, 20))
    sender.acknowledge(15)
    sender.flush_empty()
    assert send_all(sender) == [(15, 20, [])]


# ------------------------------------------------------------------ requests


def answer(
    sender: SequenceSender[EventRange], nack: Nack, now: float = 1.0, round_trip: float = 0.1
) -> list[Item]:
    return items_of(sender.answer(nack, now, round_trip))


def test_a_request_is_answered_from_the_current_place_on() -> None:
    sender = make_sent(*TENS)
    expected = [(30, 40, [35]), (40, 50, [45])]
    assert answer(sender, Nack(30, [])) == expected
    assert answer(sender, Nack(50, []), 9.0) == []
    # A range that the child has in part is sent whole.
    assert answer(sender, Nack(31, []), 9.0) == expected


def test_held_ranges_are_not_sent_again() -> None:
    sender = make_sent(*TENS)
    held = [(10, 20), (30, 39), (40, 60)]
    assert answer(sender, Nack(0, held)) == [(0, 10, [5]), (20, 30, [25]), (30, 40, [35])]


def test_no_range_is_sent_twice_within_a_round_trip() -> None:
    sender = make_sender(*TENS[:2])
    sender.next_to_send(ROOM, 0.0)
    sender.next_to_send(ROOM, 1.0)
    assert answer(sender, Nack(0, []), 1.0625, 0.125) == [(0, 10, [5])]
    assert answer(sender, Nack(0, []), 1.125, 0.125) == [(10, 20, [15])]
    assert answer(sender, Nack(0, []), 1.1875, 0.125) == [(0, 10, [5])]
    assert answer(sender, Nack(0, []), 1.1875, 0.125) == []


def test_forgotten_ranges_are_stated() -> None:
    sender = make_sender(*TENS)
    sent = [sender.next_to_send(ROOM, 0.0) for _ in range(5)]
    for each in sent[:2]:
        assert isinstance(each, Sent)
        assert sender.forget(each) == ENTRY_BYTES and not each.is_kept
    assert sender.kept_count == 3
    assert answer(sender, Nack(5, [(20, 50)])) == [Unavailable(5, 20)]
    for each in sent[2:]:
        assert isinstance(each, Sent)
        sender.forget(each)
    assert answer(sender, Nack(5, [])) == [Unavailable(5, 50)]
    assert answer(sender, Nack(50, [])) == []


def test_missing_ranges_between_sent_ones_are_stated_again() -> None:
    sender = make_sender(TENS[0])
    sender.pass_missing(17)
    sender.append(make_range(17, 20, 18))
    sender.pass_missing(25)
    send_all(sender)
    assert answer(sender, Nack(0, [])) == [
        *((0, 10, [5]), Unavailable(10, 17)),
        *((17, 20, [18]), Unavailable(20, 25)),
    ]
    assert answer(sender, Nack(12, [(17, 20)])) == [Unavailable(12, 17), Unavailable(20, 25)]


def test_waiting_ranges_are_no_answer() -> None:
    sender = make_sender(*TENS)
    sender.next_to_send(ROOM, 0.0)
    assert answer(sender, Nack(0, [])) == [(0, 10, [5])]


def test_the_number_of_answers_is_bounded() -> None:
    sender = make_sent(*(make_range(an, an + 1, an + 1) for an in range(300)))
    first = answer(sender, Nack(0, []))
    assert len(first) == 256
    # The next request gets the others, as the first ones are on their way.
    assert answer(sender, Nack(0, [])) == [(an, an + 1, [an + 1]) for an in range(256, 300)]
