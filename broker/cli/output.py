"""Buffered output of events; a closed pipe ends the command quietly."""

from __future__ import annotations

import asyncio
import os
from typing import IO, Final

from broker.cli.event_format import (
    Form,
    change_as_json,
    change_as_text,
    gap_as_json,
    gap_as_text,
    missing_as_json,
    missing_as_text,
    notice_as_json,
    notice_as_text,
)
from broker.cli.stop_signal import Stop
from broker.cli.terminal import print_note
from broker.client.received import Gap, ReceivedEvent, TypeChanged
from broker.event.merging.held_event import MissingNumbers
from broker.event.site_notice import SiteCoverage, SiteNotice

#: Unwritten bytes, exceeded by at most one event.
_MAX_PENDING: Final = 64 * 1024


class Output:
    """Writes in the loop's next turn, or at once."""

    def __init__(
        self, stream: IO[bytes], form: Form, stop: Stop, *, json: bool, is_unbuffered: bool
    ) -> None:
        self._stream = stream
        self._form = form
        self._stop = stop
        self._json = json
        self._is_unbuffered = is_unbuffered
        self._pending = bytearray()
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self.events = 0
        self.gaps = 0
        self.last_event: ReceivedEvent | None = None
        """The newest printed event."""
        self.is_broken = False
        """True if the pipe's reader has closed it."""

    def print_event(self, event: ReceivedEvent) -> None:
        self._print(self._form(event))
        if not self.is_broken:
            self.events += 1
            self.last_event = event

    def print_gap(self, gap: Gap) -> None:
        self.gaps += 1
        print_note(gap_as_text(gap))
        if self._json:
            self._print(gap_as_json(gap))

    def print_change(self, change: TypeChanged) -> None:
        print_note(change_as_text(change))
        if self._json:
            self._print(change_as_json(change))

    def print_missing(self, missing: MissingNumbers) -> None:
        print_note(missing_as_text(missing))
        if self._json:
            self._print(missing_as_json(missing))

    def print_notice(self, notice: SiteNotice) -> None:
        if isinstance(notice, SiteCoverage):
            # One comes each second.
            return
        print_note(notice_as_text(notice))
        if self._json:
            self._print(notice_as_json(notice))

    def flush(self) -> None:
        """A pipe without a reader stops the command."""
        self._scheduled = False
        data, self._pending = self._pending, bytearray()
        if self.is_broken:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            self.is_broken = True
            self._stop.request()
            self._discard_buffer()

    def _print(self, data: bytes) -> None:
        self._pending += data
        if self._is_unbuffered or len(self._pending) > _MAX_PENDING:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def _discard_buffer(self) -> None:
        """The interpreter flushes the buffer at exit: send it to /dev/null."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
