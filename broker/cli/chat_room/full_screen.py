"""A whole terminal as the view of rooms, by plain escape sequences."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from broker.cli.chat_room.chat_session import now_ms
from broker.cli.chat_room.line_editor import Key, LineEditor
from broker.cli.chat_room.room import RoomNotice
from broker.cli.chat_room.screen import OpenRoom, Screen
from broker.cli.chat_room.transcript import Insertion

#: Seconds between two drawings.
_PERIOD: Final = 0.05
#: Seconds after which statuses and members are drawn again.
_REFRESH: Final = 10.0
#: Without automatic wrapping: terminals differ about the width of some characters.
_ENTER: Final = "\x1b[?1049h\x1b[?7l\x1b[2J"
_LEAVE: Final = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_STYLES: Final = {"": "", "bold": "\x1b[1m", "late": "\x1b[33m", "missing": "\x1b[31m"}


class FullScreen:
    def __init__(self, rooms: Sequence[OpenRoom], typed: Callable[[str | Key], None]) -> None:
        """`typed` gets finished lines, and keys that the screen does not handle."""
        self.screen = Screen(rooms)
        self._typed = typed
        self._editor = LineEditor()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._drawing: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """Own the terminal until the end of the block."""
        loop, stdin = asyncio.get_running_loop(), sys.stdin.fileno()
        before = termios.tcgetattr(stdin)
        tty.setcbreak(stdin)
        self._write(_ENTER)
        loop.add_reader(stdin, self._read, stdin)
        loop.add_signal_handler(signal.SIGWINCH, self.draw_soon)
        self.draw_soon()
        try:
            yield
        finally:
            loop.remove_reader(stdin)
            loop.remove_signal_handler(signal.SIGWINCH)
            if self._drawing is not None:
                self._drawing.cancel()
            self._write(_LEAVE)
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)

    def draw_soon(self, seconds: float = _PERIOD) -> None:
        loop = asyncio.get_running_loop()
        if self._drawing is not None:
            if self._drawing.when() <= loop.time() + seconds:
                return
            self._drawing.cancel()
        self._drawing = loop.call_later(seconds, self._draw)

    def show_note(self, text: str) -> None:
        self.screen.note = text
        self.draw_soon()

    def _draw(self) -> None:
        self._drawing = None
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        self.screen.line = self._editor.line
        shown = self.screen.render(rows, columns, now_ms())
        parts = [
            f"\x1b[{number};1H\x1b[0m{_STYLES[row.style]}{row.text}\x1b[0m\x1b[K"
            for number, row in enumerate(shown[-rows:], 1)
        ]
        end = self.screen.cursor + 1
        self._write("\x1b[?25l" + "".join(parts) + f"\x1b[{rows};{end}H\x1b[?25h")
        self.draw_soon(_REFRESH)

    def _read(self, stdin: int) -> None:
        try:
            data = os.read(stdin, 4_096)
        except OSError:
            data = b""
        if not data:
            # The terminal is gone.
            asyncio.get_running_loop().remove_reader(stdin)
            self._typed(Key.END)
            return
        for each in self._editor.feed(self._decoder.decode(data)):
            self._handle(each)
        self.draw_soon()

    def _handle(self, typed: str | Key) -> None:
        room = self.screen.room
        if typed is Key.NEXT_ROOM:
            self.screen.show_next_room()
        elif typed is Key.UP:
            room.scrolled += 5
        elif typed is Key.DOWN:
            room.scrolled = max(0, room.scrolled - 5)
        elif typed is Key.REDRAW:
            self._write("\x1b[2J")
        else:
            self.screen.note = ""
            self._typed(typed)

    @staticmethod
    def _write(text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()


class RoomView:
    """One room of the screen, as the view of its session."""

    def __init__(self, room: OpenRoom, full_screen: FullScreen) -> None:
        self._room = room
        self._full_screen = full_screen

    def show_history(self) -> None:
        self._full_screen.draw_soon()

    def show_line(self, insertion: Insertion) -> None:
        if self._room is not self._full_screen.screen.room:
            self._room.unread += 1
        self._full_screen.draw_soon()

    def show_notice(self, notice: RoomNotice) -> None:
        self._full_screen.draw_soon()

    def show_note(self, text: str) -> None:
        self._full_screen.show_note(text)
