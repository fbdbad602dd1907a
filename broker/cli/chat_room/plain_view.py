"""Append-only lines of a chat room, for pipes and screen readers."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import IO

from broker.cli.chat_room.line_format import (
    arrivals_as_text,
    late_as_text,
    line_as_text,
    line_with_arrivals,
    members_as_text,
    placed_missing_as_text,
    status_as_text,
)
from broker.cli.chat_room.own_lines import SettledLine
from broker.cli.chat_room.room import Room, RoomNotice
from broker.cli.chat_room.transcript import Insertion
from broker.cli.terminal import print_note
from broker.event.site_notice import MissingMessages, SiteStatus


class PlainView:
    def __init__(
        self,
        room: Room,
        stream: IO[bytes],
        history_lines: int,
        now: Callable[[], int],
        broken: Callable[[], None],
    ) -> None:
        """`now` returns ms since 1970. `broken` is called if the pipe's reader has closed it."""
        self._room = room
        self._stream = stream
        self._history_lines = history_lines
        self._now = now
        self._broken = broken
        self._is_broken = False

    def show_history(self) -> None:
        lines = self._room.transcript.lines
        for line in islice(lines, max(0, len(lines) - self._history_lines), None):
            self._print(line_with_arrivals(line, self._room))
        for status in self._room.statuses.values():
            self._print(status_as_text(status))
        self.show_members()

    def show_line(self, insertion: Insertion) -> None:
        line = insertion.line
        if line.is_late:
            self._print(late_as_text(line, insertion.before, insertion.after))
        else:
            self._print(line_as_text(line))

    def show_notice(self, notice: RoomNotice) -> None:
        if isinstance(notice, SiteStatus):
            self._print(status_as_text(notice))
        elif isinstance(notice, Insertion):
            self._print(f"moved: {late_as_text(notice.line, notice.before, notice.after)}")
        elif isinstance(notice, SettledLine):
            sites = arrivals_as_text(notice.arrivals)
            self._print(f"delivered: {line_as_text(notice.line)} {sites}")
        elif isinstance(notice, MissingMessages):
            neighbours = self._room.transcript.neighbours_of(notice)
            self._print(placed_missing_as_text(notice, *neighbours))

    def show_note(self, text: str) -> None:
        print_note(text)

    def show_members(self) -> None:
        self._print(members_as_text(self._room, self._now()))

    def show_statuses(self) -> None:
        for status in self._room.statuses.values():
            self._print(status_as_text(status))

    def _print(self, text: str) -> None:
        if self._is_broken:
            return
        try:
            self._stream.write(text.encode() + b"\n")
            self._stream.flush()
        except BrokenPipeError:
            self._is_broken = True
            # The interpreter flushes the buffer at exit: send it to /dev/null.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
            self._broken()
