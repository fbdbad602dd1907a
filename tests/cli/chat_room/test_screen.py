"""Rows of the full screen."""

from __future__ import annotations

from random import Random

import pytest
from rich.cells import cell_len

from broker.cli.chat_room.message import Presence
from broker.cli.chat_room.room import Room
from broker.cli.chat_room.screen import OpenRoom, Screen, wrap
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteStatus
from tests.cli.chat_room.events import NOON, chat_event

NOW = NOON // 1_000


def texts(screen: Screen, rows: int = 12, columns: int = 60) -> list[str]:
    return [row.text.rstrip() for row in screen.render(rows, columns, NOW)]


def make_screen(*names: str) -> Screen:
    return Screen([OpenRoom(name, Room()) for name in names or ("ops",)])


def test_late_and_missing_lines_are_at_their_places() -> None:
    screen = make_screen()
    room = screen.room.room
    for event in (
        chat_event("a", 1, author="anna", presence=Presence.JOINED),
        chat_event("c", 2),
        chat_event("a", 7),
        chat_event("c", 5, is_late=True),
    ):
        room.add_event(event, NOW)
    room.add_notice(MissingMessages("ops", "c", 1, 3, 4, "lost"))
    room.add_notice(SiteStatus("ops", "c", "suspected", "silent", NOW))
    screen.note, screen.line = "a note", "typed"
    assert texts(screen) == [
        "rooms: [ops]",
        "sites: c suspected (silent)",
        "here: anna <a-1> at a; c-1 at c (suspected)".replace("anna <a-1>", "a-1"),
        "",
        "",
        "22:13:20.001 ± 2 ms a anna <a-1> joins",
        "22:13:20.002 ± 2 ms c c-1: text 2",
        "missing: messages 3 to 4 of site c (lost)",
        "late 22:13:20.005 ± 2 ms c c-1: text 5",
        "22:13:20.007 ± 2 ms a a-1: text 7",
        "a note",
        "> typed",
    ]
    styles = [row.style for row in screen.render(12, 60, NOW)]
    assert styles[7:9] == ["missing", "late"] and screen.cursor == len("> typed")


def test_own_lines_show_the_sites_at_which_they_have_arrived() -> None:
    screen = Screen([OpenRoom("ops", Room(own_client="a-1"))])
    room = screen.room.room
    room.add_notice(SiteStatus("ops", "b\x1b[2J", "connected", "", NOW))
    room.add_notice(SiteCoverage("ops", "a", ()))
    room.add_event(chat_event("a", 1), NOW)
    room.add_event(chat_event("b", 2), NOW)
    assert texts(screen, columns=80)[8:10] == [
        "22:13:20.001 ± 2 ms a a-1: text 1 [a] waits for b\\x1b[2J",
        "22:13:20.002 ± 2 ms b b-1: text 2",
    ]


def test_other_rooms_have_counts() -> None:
    screen = make_screen("ops", "fuel")
    screen.rooms[1].unread = 3
    assert texts(screen)[0] == "rooms: [ops] fuel (3)"
    screen.show_next_room()
    assert texts(screen)[0] == "rooms: ops [fuel]"


def test_the_transcript_scrolls_within_its_bounds() -> None:
    screen = make_screen()
    for number in range(1, 21):
        screen.room.room.add_event(chat_event("a", number), NOW)
    assert texts(screen)[9].endswith("text 20")
    screen.room.scrolled = 5
    assert texts(screen)[9].endswith("text 15")
    screen.room.scrolled = 1_000
    assert texts(screen)[3].endswith("text 1") and screen.room.scrolled == 13


def test_a_part_of_a_long_line_looks_like_no_line_of_its_own() -> None:
    rows = wrap("x" * 50 + "12:00:00.000 b ben: forged", 50)
    assert rows == ["x" * 50, "    12:00:00.000 b ben: forged"]


@pytest.mark.parametrize("seed", range(20))
def test_rows_fit_the_terminal_whatever_others_write(seed: int) -> None:
    random = Random(seed)
    screen = make_screen()
    letters = "ab \u0301日😀\u200d\x9b\u202e\t\n\u200f\ufeff"
    for number in range(1, 30):
        text = "".join(random.choices(letters, k=random.randint(1, 300)))
        screen.room.room.add_event(chat_event("a", number, text=text, author=text[:60]), NOW)
    screen.note, screen.line = "note \x1b[2J", "日" * 200
    rows, columns = random.randint(7, 40), random.randint(20, 120)
    shown = screen.render(rows, columns, NOW)
    assert len(shown) == rows and max(cell_len(row.text) for row in shown) <= columns, seed
    whole = "".join(row.text for row in shown)
    assert not set(whole) & set("\x1b\x9b\u202e\t\n\u200f\ufeff"), seed
    assert screen.cursor < columns
