"""What one origin's events are sent to whom, and what destinations are told in between."""

from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.traffic.frame import MAX_DESTINATIONS, Frame, FrameEvent
from broker.cluster.traffic.sender import (
    MAX_LIVE_LAG,
    PROGRESS_REPEATS,
    OriginSender,
    OutgoingEvent,
)
from broker.event.place import Mark
from tests.cluster.traffic.frames import HOME, node

N1, N2 = node("n1"), node("n2")


def departures(*destinations: Address, upto: Mark = (1, 0)) -> OriginSender:
    made = OriginSender("o", HOME, upto)
    made.set_destinations(destinations, upto)
    return made


def event(offset: int, *whom: Address, level: int = 0) -> OutgoingEvent:
    return OutgoingEvent(FrameEvent((1, offset), b"r", b"d%d" % offset, level), level, whom)


def send(
    made: OriginSender, after: int, upto: int, *events: OutgoingEvent
) -> dict[Address, object]:
    return told(made.event_frame((1, after), (1, upto), events, lambda *_: True))


def told(frame: Frame | None) -> dict[Address, object]:
    """By destination: the range and the offsets of its events."""
    if frame is None:
        return {}
    return {
        each.destination: (
            each.after[1],
            each.upto[1],
            [frame.marks()[i][1] for i in frame.event_indices_for(index)],
        )
        for index, each in enumerate(frame.ranges)
    }


def test_each_destination_is_sent_what_it_wants_and_from_where() -> None:
    made = departures(N1, N2)
    assert send(made, 0, 2, event(1, N1), event(2, N1)) == {N1: (0, 2, [1, 2])}
    assert send(made, 2, 4, event(3, N1, N2), event(4)) == {N1: (2, 4, [3]), N2: (0, 4, [3])}
    assert send(made, 4, 5, event(5)) == {}


def test_who_was_sent_nothing_is_told_how_far_events_are() -> None:
    made = departures(N1, N2)
    made.progress_frame()
    send(made, 0, 1, event(1, N1))
    assert told(made.progress_frame())[N2] == (0, 1, [])


def test_who_is_sent_nothing_more_is_told_again_and_in_the_end_once_a_minute() -> None:
    made = departures(N1)
    send(made, 0, 1, event(1, N1))
    calls = [told(made.progress_frame()) for _ in range(60 * PROGRESS_REPEATS[-1])]
    assert calls[0] == {N1: (1, 1, [])}
    last = PROGRESS_REPEATS[-1]
    assert sum(map(bool, calls[:last])) in (len(PROGRESS_REPEATS), len(PROGRESS_REPEATS) + 1)
    assert made.repeating == 0
    for start in range(last, len(calls), last):
        assert [each for each in calls[start : start + last] if each] == [{N1: (1, 1, [])}]


def test_what_was_missed_on_the_way_here_shows_as_a_hole() -> None:
    made = departures(N1, N2)
    send(made, 0, 1, event(1, N1))
    assert send(made, 5, 6, event(6, N1)) == {N1: (5, 6, [6])}
    assert told(made.progress_frame())[N2] == (5, 6, [])


def test_a_new_destination_begins_behind_what_may_have_been_matched_without_it() -> None:
    made = departures(N1)
    made.set_destinations([N1, N2], (1, 3))
    assert send(made, 0, 2, event(1, N2), event(2, N1)) == {N1: (0, 2, [2])}
    assert send(made, 2, 4, event(3, N2), event(4, N2)) == {N2: (3, 4, [4])}


def test_who_begins_is_told_where_for_as_long_as_it_may_not_know() -> None:
    made = departures(N1, upto=(1, 5))
    assert since(made, 6) is None
    assert since(made, 7) == (1, 5)
    for _ in range(PROGRESS_REPEATS[-1]):
        made.progress_frame()
    assert since(made, 8) is None


def since(made: OriginSender, offset: int) -> Mark | None:
    frame = made.event_frame((1, offset - 1), (1, offset), [event(offset, N1)], lambda *_: True)
    assert frame is not None
    return frame.ranges[0].first_after


def test_who_is_gone_is_sent_nothing() -> None:
    made = departures(N1, N2)
    made.set_destinations([N2], (1, 0))
    assert send(made, 0, 1, event(1, N1)) == {}
    assert set(made.destinations) == {N2}


def test_who_reads_much_is_sent_nothing_beside_until_it_has_read_all() -> None:
    made = departures(N1, upto=(1, 2 * MAX_LIVE_LAG))
    made.start_reading(N1, (1, 0))
    assert made.is_reading(N1)
    assert send(made, 2 * MAX_LIVE_LAG, 2 * MAX_LIVE_LAG + 1, event(2 * MAX_LIVE_LAG + 1, N1)) == {}
    made.finish_reading(N1)
    last = 2 * MAX_LIVE_LAG + 1
    assert send(made, last, last + 1, event(last + 1, N1)) == {N1: (last, last + 1, [last + 1])}


def test_who_reads_little_is_sent_what_comes() -> None:
    made = departures(N1, upto=(1, 10))
    made.start_reading(N1, (1, 0))
    assert send(made, 10, 11, event(11, N1)) == {N1: (10, 11, [11])}


def test_what_there_is_no_cleared_way_for_is_left_out_and_counted() -> None:
    made = departures(N1)
    events = [event(1, N1, level=2), event(2, N1)]
    frame = made.event_frame((1, 0), (1, 2), events, lambda _, level: level == 0)
    assert told(frame) == {N1: (0, 2, [2])}
    assert made.denied == 1


def test_who_does_not_fit_into_a_frame_sees_a_hole() -> None:
    many = [node(f"n{number:05}") for number in range(MAX_DESTINATIONS + 1)]
    made = OriginSender("o", HOME, (1, 0))
    made.set_destinations(many, (1, 0))
    last = many[-1]
    first = made.event_frame(
        (1, 0), (1, 1), [OutgoingEvent(FrameEvent((1, 1), b"r", b"d"), 0, many)], lambda *_: True
    )
    assert first is not None and last not in [each.destination for each in first.ranges]
    second = made.event_frame(
        (1, 1), (1, 2), [OutgoingEvent(FrameEvent((1, 2), b"r", b"d"), 0, [last])], lambda *_: True
    )
    assert second is not None
    (told,) = second.ranges
    assert told.after == (1, 1), "of (0, 1] it has nothing"
