"""Lines for pipes, as the room changes."""

from __future__ import annotations

import io

from broker.cli.chat_room.plain_view import PlainView
from broker.cli.chat_room.room import Room
from broker.event.site_coverage import CoveredMessages, Range
from broker.event.site_notice import SiteCoverage, SiteNotice, SiteStatus
from tests.cli.chat_room.events import NOON, chat_event

NOW = NOON // 1_000


class Chat:
    """The plain view of a client of site a, as its session feeds it."""

    def __init__(self) -> None:
        self.room = Room(own_client="a-1")
        self._out = io.BytesIO()
        self._view = PlainView(self.room, self._out, 10, lambda: NOW, lambda: None)

    def say(self, number: int) -> None:
        insertion = self.room.add_event(chat_event("a", number), NOW)
        assert insertion is not None
        self._view.show_line(insertion)
        for each in self.room.add_own(insertion.line):
            self._view.show_notice(each)

    def notify(self, notice: SiteNotice) -> None:
        for each in self.room.add_notice(notice):
            self._view.show_notice(each)

    def tell(self, site: str, last: int, *missing: Range) -> None:
        row = CoveredMessages("a", 1, 1, last, missing)
        self.notify(SiteCoverage("ops", site, (row,)))

    @property
    def lines(self) -> list[str]:
        return [line.replace(" ± 2 ms", "") for line in self._out.getvalue().decode().splitlines()]


def test_an_own_text_is_written_again_once_no_site_waits_for_it() -> None:
    chat = Chat()
    for site in "bc":
        chat.room.add_notice(SiteStatus("ops", site, "connected", "", NOW))
    chat.notify(SiteCoverage("ops", "a", ()))
    chat.say(1)
    for last in range(1, 50):
        chat.tell("b", last)
    chat.say(50)
    for last in range(1, 60):
        chat.tell("c", last, *([(50, 50)] if last >= 50 else []))
    chat.tell("b", 60)
    assert chat.lines == [
        "22:13:20.001 a a-1: text 1",
        "22:13:20.050 a a-1: text 50",
        "delivered: 22:13:20.001 a a-1: text 1 [a b c]",
        "delivered: 22:13:20.050 a a-1: text 50 [a b] missing at c",
    ]


def test_names_of_sites_can_not_control_the_terminal() -> None:
    chat = Chat()
    chat.room.add_notice(SiteStatus("ops", "c\x1b[2J\n", "connected", "", NOW))
    chat.notify(SiteCoverage("ops", "a", ()))
    chat.say(1)
    chat.tell("c\x1b[2J\n", 1)
    assert chat.lines[1:] == [r"delivered: 22:13:20.001 a a-1: text 1 [a c\x1b[2J ]"]
