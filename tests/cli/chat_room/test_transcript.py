"""The transcript of a room is the same in whatever order its lines come."""

from __future__ import annotations

from io import BytesIO
from random import Random

import pytest

from broker.cli.chat_room.plain_view import PlainView
from broker.cli.chat_room.room import Room
from broker.cli.chat_room.transcript import ChatLine, Insertion, Line, Transcript
from broker.client.received import ReceivedEvent
from broker.event.site_notice import MissingMessages, MovedMessage, MovedMessages, SiteNotice
from tests.cli.chat_room.events import NOON, chat_event
from tests.seeds import seeds

NOW = NOON // 1_000


def missing(site: str, first: int, last: int) -> MissingMessages:
    return MissingMessages("ops", site, 1, first, last, "lost")


def feed(items: list[ReceivedEvent | SiteNotice], most_lines: int = 1_000) -> list[Line]:
    room = Room(most_lines)
    for item in items:
        if isinstance(item, ReceivedEvent):
            room.add_event(item, NOW)
        else:
            room.add_notice(item)
    return room.transcript.lines


def describe(lines: list[Line]) -> list[str]:
    return [describe_line(line) for line in lines]


def describe_line(line: Line) -> str:
    if isinstance(line, MissingMessages):
        return f"missing {line.site}{line.first}-{line.last}"
    assert line.order is not None
    return f"{line.site}{line.order.number}"


@pytest.mark.parametrize("seed", seeds(40, 1_000))
def test_any_order_of_arrival_gives_one_transcript(seed: int) -> None:
    random = Random(seed)
    items: list[ReceivedEvent | SiteNotice] = []
    for site in "abc":
        stamp = 0
        for number in range(1, 30):
            stamp += random.randint(1, 40)
            if random.random() < 0.8:
                items.append(chat_event(site, number, stamp, is_late=random.random() < 0.3))
        for _ in range(3):
            first = random.randint(1, 35)
            items.append(missing(site, first, first + random.randint(0, 6)))
    most_lines = random.choice((20, 1_000))
    messages = [each for each in items if isinstance(each, ReceivedEvent)]
    random.shuffle(items)
    expected = feed(items, most_lines)
    stamps = [each.key for each in expected if isinstance(each, ChatLine)]
    assert stamps == sorted(stamps) and len(stamps) == min(most_lines, len(messages))
    if most_lines < len(messages):
        # A dropped line does not shorten what is missing any more.
        expected = [each for each in expected if isinstance(each, ChatLine)]
    for _ in range(5):
        random.shuffle(items)
        found = feed(items, most_lines)
        if most_lines < len(messages):
            found = [each for each in found if isinstance(each, ChatLine)]
        assert set(describe(found)) == set(describe(expected)), seed
        assert [each for each in found if isinstance(each, ChatLine)] == [
            each for each in expected if isinstance(each, ChatLine)
        ], seed


def test_equal_stamps_are_in_the_order_of_sites() -> None:
    items: list[ReceivedEvent | SiteNotice] = [chat_event(site, 1, 5) for site in "cab"]
    assert describe(feed(items)) == ["a1", "b1", "c1"]


def test_a_line_that_comes_again_is_counted() -> None:
    room = Room()
    assert room.add_event(chat_event("a", 1), NOW) is not None
    assert room.add_event(chat_event("a", 1), NOW) is None
    assert room.transcript.repeated == 1


def test_a_late_line_has_its_neighbours() -> None:
    room = Room()
    for number in (1, 3):
        room.add_event(chat_event("a", number), NOW)
    insertion = room.add_event(chat_event("b", 2, is_late=True), NOW)
    assert insertion is not None and insertion.before is not None and insertion.after is not None
    assert [insertion.before.order, insertion.after.order] == [
        chat_event("a", 1).order,
        chat_event("a", 3).order,
    ]


@pytest.mark.parametrize(
    ("numbers", "first", "expected"),
    [
        ((1, 2, 5), 3, ["c1", "c2", "missing c3-4", "c5"]),
        ((5, 6), 3, ["missing c3-4", "c5", "c6"]),
        ((1, 2), 3, ["c1", "c2", "missing c3-4"]),
        ((), 3, ["missing c3-4"]),
    ],
)
def test_missing_messages_have_a_place(
    numbers: tuple[int, ...], first: int, expected: list[str]
) -> None:
    items: list[ReceivedEvent | SiteNotice] = [chat_event("c", number) for number in numbers]
    assert describe(feed([missing("c", first, first + 1), *items])) == expected
    assert describe(feed([*items, missing("c", first, first + 1)])) == expected


def test_a_missing_message_that_comes_after_all_is_missing_no_more() -> None:
    items: list[ReceivedEvent | SiteNotice] = [missing("c", 1, 5), chat_event("c", 3)]
    expected = ["missing c1-2", "c3", "missing c4-5"]
    assert sorted(describe(feed(items))) == sorted(expected)
    assert describe(feed([chat_event("c", each) for each in range(1, 6)] + items[:1])) == [
        f"c{each}" for each in range(1, 6)
    ]


def test_bounds_hold() -> None:
    transcript = Transcript(most_lines=10, most_missing=4)
    room = Room(10)
    room.transcript = transcript
    for number in range(1, 40):
        room.add_event(chat_event("a", number), NOW)
        room.add_notice(missing("b", 2 * number, 2 * number))
    assert len(transcript.messages) == 10 and transcript.dropped == 29
    assert len(transcript.missing) == 4


def test_lines_that_move_are_late_at_their_new_places() -> None:
    room = Room()
    for number, stamp in ((1, 10), (2, 20), (3, 30), (4, 40)):
        room.add_event(chat_event("a", number, stamp), NOW)
    moves = MovedMessage("a", 1, 3, 5, "b"), MovedMessage("a", 1, 4, 6, "b")
    assert room.add_notice(MovedMessages("other", moves)) == []
    first, second = room.add_notice(MovedMessages("ops", (*moves, MovedMessage("c", 1, 9, 1, "c"))))
    assert isinstance(first, Insertion) and isinstance(second, Insertion)
    assert describe(room.transcript.lines) == ["a3", "a4", "a1", "a2"]
    assert first.line.is_late and second.before == first.line
    assert second.after is not None and describe_line(second.after) == "a1"
    stream = BytesIO()
    PlainView(room, stream, 10, lambda: NOW, lambda: None).show_notice(second)
    assert stream.getvalue().startswith(b"moved: late ")
    # A history that contains a line again does not repeat it.
    assert room.add_event(chat_event("a", 3, 30), NOW) is None
