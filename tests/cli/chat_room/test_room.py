"""Members and sites of a room."""

from __future__ import annotations

from broker.cli.chat_room.line_format import members_as_text
from broker.cli.chat_room.message import Presence
from broker.cli.chat_room.room import MEMBER_LIFETIME, MOST_MEMBERS, MOST_SITES, Room
from broker.event.site_notice import SiteStatus
from tests.cli.chat_room.events import NOON, chat_event

NOW = NOON // 1_000


def status(site: str, state: str) -> SiteStatus:
    return SiteStatus("ops", site, state, "silent", NOW)


def test_a_member_joins_and_leaves() -> None:
    room = Room()
    room.add_event(chat_event("a", 1, author="anna", presence=Presence.JOINED), NOW)
    room.add_event(chat_event("b", 1, author="ben"), NOW)
    room.add_notice(status("b", "suspected"))
    assert members_as_text(room, NOW) == "here: anna <a-1> at a; ben <b-1> at b (suspected)"
    room.add_event(chat_event("a", 2, presence=Presence.LEFT), NOW)
    assert members_as_text(room, NOW) == "here: ben <b-1> at b (suspected)"
    # A late message of before.
    room.add_event(chat_event("a", 1), NOW)
    assert [each.author for each in room.members(NOW)] == ["ben"]


def test_presence_between_joining_and_leaving_adds_no_line() -> None:
    room = Room()
    assert room.add_event(chat_event("a", 1, presence=Presence.PRESENT), NOW) is None
    assert len(room.members(NOW)) == 1 and room.transcript.lines == []


def test_silent_members_expire() -> None:
    room = Room()
    room.add_event(chat_event("a", 1), NOW + 1)
    assert room.members(NOW + MEMBER_LIFETIME - 1)
    assert not room.members(NOW + MEMBER_LIFETIME + 1)


def test_an_event_that_is_no_chat_is_counted() -> None:
    room = Room()
    room.add_event(chat_event("a", 1, payload=b"<flight/>"), NOW)
    assert room.unreadable == 1 and room.transcript.lines == []


def test_tables_are_bounded() -> None:
    room = Room()
    for number in range(MOST_MEMBERS + 5):
        room.add_event(chat_event(f"s{number}", 1, presence=Presence.PRESENT), NOW)
    for number in range(MOST_SITES + 5):
        room.add_notice(status(f"s{number}", "suspected"))
    assert len(room.members(NOW)) == MOST_MEMBERS and len(room.statuses) == MOST_SITES
