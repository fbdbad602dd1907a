"""The input line of a terminal, without I/O."""

from __future__ import annotations

import enum
import re
from typing import Final

from broker.cli.chat_room.message import MAX_TEXT

_KEY: Final = re.compile(
    "\x1b\\[[0-9;?]*[ -/]*[@-~]|\x1bO[A-Z]|\x1b"
    "|[\x00-\x1a\x1c-\x1f\x7f-\x9f]|[^\x00-\x1f\x7f-\x9f]+"
)
#: The beginning of an escape sequence, whose end may come with the next bytes.
_PARTIAL: Final = re.compile("\x1b(?:\\[[0-9;?]*[ -/]*|O)?$")


class Key(enum.Enum):
    NEXT_ROOM = "\t"
    UP = "\x1b[5~"
    DOWN = "\x1b[6~"
    REDRAW = "\x0c"
    END = "\x04"
    """Only on an empty line."""


_KEYS: Final = {each.value: each for each in Key}


class LineEditor:
    """Takes what was typed, and returns finished lines and keys. A line has a bounded length."""

    def __init__(self) -> None:
        self.line = ""
        self._partial = ""

    def feed(self, text: str) -> list[str | Key]:
        text = self._partial + text
        partial = _PARTIAL.search(text)
        self._partial = "" if partial is None else partial[0][:32]
        if partial is not None:
            text = text[: partial.start()]
        found = (self._handle(each) for each in _KEY.findall(text))
        return [each for each in found if each is not None]

    def _handle(self, typed: str) -> str | Key | None:
        if typed in ("\r", "\n"):
            line, self.line = self.line, ""
            return line
        if typed in ("\x7f", "\x08"):
            self.line = self.line[:-1]
        elif typed == "\x15":
            self.line = ""
        elif typed == "\x17":
            self.line = self.line.rstrip().rpartition(" ")[0]
        elif typed in _KEYS:
            key = _KEYS[typed]
            return None if key is Key.END and self.line else key
        elif typed.isprintable():
            self.line = (self.line + typed)[:MAX_TEXT]
        return None
