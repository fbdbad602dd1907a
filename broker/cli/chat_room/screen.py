"""The rows of a full screen, without I/O.

From above: rooms; sites with their status; members; the transcript; a note; the input line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import attrs
from rich.cells import cell_len, chop_cells, set_cell_size

from broker.cli.chat_room.line_format import line_with_arrivals, members_as_text
from broker.cli.chat_room.room import Room
from broker.cli.terminal import one_line
from broker.event.site_notice import MissingMessages

#: Smaller terminals show parts of these.
LEAST_ROWS: Final = 7
LEAST_COLUMNS: Final = 20
PROMPT: Final = "> "
_INDENT: Final = "    "


class Row(NamedTuple):
    text: str
    """At most as wide as the terminal, without control characters."""
    style: str = ""
    """`bold`, `late`, `missing`, or empty."""


@attrs.define(eq=False)
class OpenRoom:
    name: str
    room: Room
    unread: int = 0
    scrolled: int = 0
    """Rows between the end of the transcript and the lowest shown one."""


@attrs.define(eq=False)
class Screen:
    rooms: Sequence[OpenRoom]
    active: int = 0
    note: str = ""
    line: str = ""
    cursor: int = 0
    """Column of the cursor in the last row, from 0; `render` sets it."""

    @property
    def room(self) -> OpenRoom:
        return self.rooms[self.active]

    def show_next_room(self) -> None:
        self.active = (self.active + 1) % len(self.rooms)
        self.room.unread = 0

    def render(self, rows: int, columns: int, now: int) -> list[Row]:
        rows, columns = max(rows, LEAST_ROWS), max(columns, LEAST_COLUMNS)
        model = self.room.room
        head = [
            Row(self._describe_rooms(), "bold"),
            Row(_describe_sites(model), "bold"),
            Row(members_as_text(model, now)),
        ]
        foot = [Row(one_line(self.note), "bold"), Row(self._input(columns))]
        transcript = self._transcript(rows - len(head) - len(foot), columns)
        return [
            Row(set_cell_size(text, columns), style) for text, style in [*head, *transcript, *foot]
        ]

    def _describe_rooms(self) -> str:
        parts = []
        for index, each in enumerate(self.rooms):
            unread = f" ({each.unread})" if each.unread else ""
            name = one_line(each.name) + unread
            parts.append(f"[{name}]" if index == self.active else name)
        return "rooms: " + " ".join(parts)

    def _transcript(self, height: int, columns: int) -> list[Row]:
        """Return the lowest rows; scrolled ones end further up."""
        needed = height + self.room.scrolled
        found: list[Row] = []
        room = self.room.room
        lines = room.transcript.lines
        for line in reversed(lines):
            style = "missing" if isinstance(line, MissingMessages) else ""
            if not style and getattr(line, "is_late", False):
                style = "late"
            text = line_with_arrivals(line, room)
            found += [Row(part, style) for part in reversed(wrap(text, columns))]
            if len(found) >= needed:
                break
        self.room.scrolled = max(0, min(self.room.scrolled, len(found) - height))
        shown = found[self.room.scrolled : self.room.scrolled + height]
        shown.reverse()
        return [Row("")] * (height - len(shown)) + shown

    def _input(self, columns: int) -> str:
        line = one_line(self.line) + (" " if self.line.endswith(" ") else "")
        room = columns - cell_len(PROMPT) - 1
        while cell_len(line) > room:
            line = line[max(1, (cell_len(line) - room) // 2) :]
        self.cursor = cell_len(PROMPT + line)
        return PROMPT + line


def _describe_sites(room: Room) -> str:
    parts = []
    for status in sorted(room.statuses.values(), key=lambda each: (each.stack, each.site)):
        reason = f" ({status.reason})" if status.reason else ""
        parts.append(f"{status.site} {status.state}{reason}")
    return one_line("sites: " + (", ".join(parts) or "no others"))


def wrap(text: str, columns: int) -> list[str]:
    """Return rows of a line; those behind the first are indented, so that none looks like one."""
    rows = list(_wrapped(text, columns))
    return rows or [""]


def _wrapped(text: str, columns: int) -> Iterator[str]:
    first, *rest = chop_cells(text, columns) or [""]
    yield first
    if rest:
        for part in chop_cells("".join(rest), columns - len(_INDENT)):
            yield _INDENT + part
