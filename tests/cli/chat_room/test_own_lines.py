"""Sites at which own messages have arrived."""

from __future__ import annotations

import pytest

from broker.cli.chat_room.line_format import line_with_arrivals
from broker.cli.chat_room.message import Presence
from broker.cli.chat_room.own_lines import Arrivals, OwnLines, SettledLine
from broker.cli.chat_room.room import Room
from broker.cli.chat_room.transcript import Transcript
from broker.event.site_coverage import MOST_SITES, CoveredMessages, Range
from broker.event.site_notice import SiteCoverage, SiteStatus
from tests.cli.chat_room.events import NOON, chat_event

NOW = NOON // 1_000


def make_room(*others: str) -> Room:
    """Return the room of a client of site a."""
    room = Room(own_client="a-1")
    for site in others or ("b", "c"):
        room.add_notice(SiteStatus("ops", site, "connected", "", NOW))
    room.add_notice(SiteCoverage("ops", "a", ()))
    return room


def add(room: Room, number: int, site: str = "a", presence: Presence | None = None) -> list[str]:
    """Add a line, and return the settled ones."""
    insertion = room.add_event(chat_event(site, number, presence=presence), NOW)
    assert insertion is not None
    return [each.line.message.text for each in room.add_own(insertion.line)]


def tell(room: Room, site: str, last: int, *missing: Range, first: int = 1) -> list[str]:
    """Let a site tell its coverage of a, and return the settled lines."""
    row = CoveredMessages("a", 1, first, last, missing)
    notice, *settled = room.add_notice(SiteCoverage("ops", site, (row,)))
    assert isinstance(notice, SiteCoverage)
    found = []
    for each in settled:
        assert isinstance(each, SettledLine)
        found.append(each.line.message.text)
    return found


def lines(room: Room) -> list[str]:
    """Return the lines behind their time."""
    return [line_with_arrivals(each, room).partition(" ms ")[2] for each in room.transcript.lines]


def test_own_texts_show_where_they_have_arrived_and_others_do_not() -> None:
    room = make_room()
    for number, site, presence in (
        (1, "a", Presence.JOINED),
        (2, "a", None),
        (3, "b", None),
        (4, "a", None),
    ):
        assert add(room, number, site, presence) == []
    assert lines(room)[1] == "a a-1: text 2 [a] waits for b, c"
    assert tell(room, "b", 4) == []
    assert tell(room, "c", 3) == ["text 2"]
    assert lines(room) == [
        "a a-1 joins",
        "a a-1: text 2 [a b c]",
        "b b-1: text 3",
        "a a-1: text 4 [a b] waits for c",
    ]
    assert tell(room, "c", 4) == ["text 4"] and tell(room, "c", 5) == []


def test_a_text_is_settled_when_no_site_waits_for_it_and_again_if_it_comes_after_all() -> None:
    room = make_room()
    add(room, 2)
    assert tell(room, "b", 2) == []
    assert tell(room, "c", 3, (2, 2)) == ["text 2"]
    assert lines(room) == ["a a-1: text 2 [a b] missing at c"]
    assert tell(room, "c", 4, (2, 2)) == []
    assert tell(room, "c", 4) == ["text 2"]
    assert lines(room) == ["a a-1: text 2 [a b c]"]


def test_sites_may_tell_it_before_the_line_comes() -> None:
    room = make_room()
    assert tell(room, "b", 2) == tell(room, "c", 2) == []
    assert add(room, 2) == ["text 2"]


def test_messages_before_what_a_site_knows_are_not_known_and_not_settled() -> None:
    room = make_room("b")
    add(room, 2)
    assert tell(room, "b", 9, first=5) == []
    assert lines(room) == ["a a-1: text 2 [a] not known at b"]


def test_nobody_waits_for_a_site_that_has_left() -> None:
    room = make_room()
    add(room, 2)
    assert tell(room, "b", 2) == []
    _, settled = room.add_notice(SiteStatus("ops", "c", "disconnected", "removed", NOW))
    assert isinstance(settled, SettledLine) and settled.arrivals == Arrivals(("a", "b"))


def test_a_client_that_has_moved_to_another_node_does_not_wait_for_its_site() -> None:
    room = make_room()
    tell(room, "b", 1)
    room.add_notice(SiteStatus("ops", "a", "connected", "", NOW))
    room.add_notice(SiteCoverage("ops", "b", ()))
    assert ("ops", "b") not in room.statuses
    add(room, 2)
    assert lines(room) == ["a a-1: text 2 [b] waits for a, c"]
    assert tell(room, "a", 2) == [] and tell(room, "c", 2) == ["text 2"]


def test_without_reports_of_the_node_nothing_is_shown() -> None:
    room = Room(own_client="a-1")
    room.add_notice(SiteStatus("ops", "b", "connected", "", NOW))
    room.add_notice(SiteCoverage("another", "a", ()))
    assert add(room, 2) == [] and lines(room) == ["a a-1: text 2"]


@pytest.mark.parametrize("has_left", [False, True])
def test_lines_that_have_left_the_transcript_are_not_followed(has_left: bool) -> None:
    room = Room(1, own_client="a-1")
    room.add_notice(SiteStatus("ops", "b", "connected", "", NOW))
    add(room, 2)
    if has_left:
        add(room, 3, "b")
    assert tell(room, "b", 2) == ([] if has_left else ["text 2"])


def test_tables_are_bounded() -> None:
    own = OwnLines("a-1", Transcript(), {})
    for number in range(MOST_SITES + 5):
        own.add_coverage(SiteCoverage("ops", f"s{number}", ()))
    assert len(own._tables) == MOST_SITES
