from __future__ import annotations

from broker.cluster.address import Address
from broker.cluster.traffic.frame import MAX_DESTINATIONS, Frame
from broker.cluster.traffic.sender import (
    MAX_LIVE_LAG,
    PROGRESS_REPEATS,
    OriginSender,
    OutgoingEvent,
)
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent
from tests.cluster.traffic.frames import HOME, node

N1, N2 = node("n1"), node("n2")


def make_sender(*destinations: Address, upto: Mark = (1, 0)) -> OriginSender:
    sender = OriginSender("o", HOME, upto)
    sender.set_destinations(destinations, upto)
    return sender


def event(offset: int, *recipients: Address, level: int = 0) -> OutgoingEvent:
    carried = CarriedEvent((1, offset), b"r", b"d%d" % offset, level)
    return OutgoingEvent(carried, level, frozenset(recipients))


def send(
    sender: OriginSender, after: int, upto: int, *events: OutgoingEvent
) -> dict[Address, object]:
    return ranges_of(sender.event_frame((1, after), (1, upto), events, lambda *_: True))


def ranges_of(frame: Frame | None) -> dict[Address, object]:
    """Return by destination: after, upto, and the offsets of its events."""
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


def test_each_destination_gets_its_events_and_their_range() -> None:
    sender = make_sender(N1, N2)
    assert send(sender, 0, 2, event(1, N1), event(2, N1)) == {N1: (0, 2, [1, 2])}
    assert send(sender, 2, 4, event(3, N1, N2), event(4)) == {N1: (2, 4, [3]), N2: (0, 4, [3])}
    assert send(sender, 4, 5, event(5)) == {}


def test_an_idle_destination_gets_the_position() -> None:
    sender = make_sender(N1, N2)
    sender.progress_frame()
    send(sender, 0, 1, event(1, N1))
    assert ranges_of(sender.progress_frame())[N2] == (0, 1, [])


def test_the_position_of_an_idle_destination_is_repeated_ever_less_often() -> None:
    sender = make_sender(N1)
    send(sender, 0, 1, event(1, N1))
    calls = [ranges_of(sender.progress_frame()) for _ in range(60 * PROGRESS_REPEATS[-1])]
    assert calls[0] == {N1: (1, 1, [])}
    last = PROGRESS_REPEATS[-1]
    assert sum(map(bool, calls[:last])) in (len(PROGRESS_REPEATS), len(PROGRESS_REPEATS) + 1)
    assert not sender._repeats
    for start in range(last, len(calls), last):
        assert [each for each in calls[start : start + last] if each] == [{N1: (1, 1, [])}]


def test_events_missed_before_the_sender_show_as_a_missing_range() -> None:
    sender = make_sender(N1, N2)
    send(sender, 0, 1, event(1, N1))
    assert send(sender, 5, 6, event(6, N1)) == {N1: (5, 6, [6])}
    assert ranges_of(sender.progress_frame())[N2] == (5, 6, [])


def test_a_new_destination_starts_behind_events_matched_without_it() -> None:
    sender = make_sender(N1)
    sender.set_destinations([N1, N2], (1, 3))
    assert send(sender, 0, 2, event(1, N2), event(2, N1)) == {N1: (0, 2, [2])}
    assert send(sender, 2, 4, event(3, N2), event(4, N2)) == {N2: (3, 4, [4])}


def test_a_new_destination_gets_its_start_until_repeats_end() -> None:
    sender = make_sender(N1, upto=(1, 5))
    assert since(sender, 6) is None
    assert since(sender, 7) == (1, 5)
    for _ in range(PROGRESS_REPEATS[-1]):
        sender.progress_frame()
    assert since(sender, 8) is None


def since(sender: OriginSender, offset: int) -> Mark | None:
    frame = sender.event_frame((1, offset - 1), (1, offset), [event(offset, N1)], lambda *_: True)
    assert frame is not None
    return frame.ranges[0].first_after


def test_a_removed_destination_gets_nothing() -> None:
    sender = make_sender(N1, N2)
    sender.set_destinations([N2], (1, 0))
    assert send(sender, 0, 1, event(1, N1)) == {}
    assert set(sender.destinations) == {N2}


def test_a_far_behind_reader_gets_only_pages() -> None:
    sender = make_sender(N1, upto=(1, 2 * MAX_LIVE_LAG))
    sender.start_reading(N1, (1, 0))
    assert sender.is_reading(N1)
    assert (
        send(sender, 2 * MAX_LIVE_LAG, 2 * MAX_LIVE_LAG + 1, event(2 * MAX_LIVE_LAG + 1, N1)) == {}
    )
    sender.finish_reading(N1)
    last = 2 * MAX_LIVE_LAG + 1
    assert send(sender, last, last + 1, event(last + 1, N1)) == {N1: (last, last + 1, [last + 1])}


def test_a_reader_that_lags_little_also_gets_new_events() -> None:
    sender = make_sender(N1, upto=(1, 10))
    sender.start_reading(N1, (1, 0))
    assert send(sender, 10, 11, event(11, N1)) == {N1: (10, 11, [11])}


def test_events_without_a_cleared_route_are_left_out_and_counted() -> None:
    sender = make_sender(N1)
    events = [event(1, N1, level=2), event(2, N1)]
    frame = sender.event_frame((1, 0), (1, 2), events, lambda _, level: level == 0)
    assert ranges_of(frame) == {N1: (0, 2, [2])}
    assert sender.denied == 1


def test_a_destination_over_the_frame_limit_finds_a_missing_range() -> None:
    many = [node(f"n{number:05}") for number in range(MAX_DESTINATIONS + 1)]
    sender = OriginSender("o", HOME, (1, 0))
    sender.set_destinations(many, (1, 0))
    last = many[-1]
    first = sender.event_frame(
        (1, 0),
        (1, 1),
        [OutgoingEvent(CarriedEvent((1, 1), b"r", b"d"), 0, frozenset(many))],
        lambda *_: True,
    )
    assert first is not None and last not in [each.destination for each in first.ranges]
    second = sender.event_frame(
        (1, 1),
        (1, 2),
        [OutgoingEvent(CarriedEvent((1, 2), b"r", b"d"), 0, frozenset([last]))],
        lambda *_: True,
    )
    assert second is not None
    (span,) = second.ranges
    assert span.after == (1, 1), "it has nothing of (0, 1]"
