"""Writing received events to stdout: in portions, and quietly over when nobody reads any more."""

from __future__ import annotations

import asyncio
import os
from typing import IO, Final

from broker.cli.rendering import (
    Form,
    change_as_json,
    change_as_text,
    gap_as_json,
    gap_as_text,
    missing_as_json,
    missing_as_text,
)
from broker.cli.stopping import Stop
from broker.cli.terminal import note
from broker.client.received import Gap, ReceivedEvent, TypeChanged
from broker.event.merging.held import Missing

#: What is not written yet never exceeds this by more than one event, in bytes.
_ENOUGH: Final = 64 * 1024


class Output:
    """Prints events and gaps. What was printed is written when the loop next has a turn."""

    def __init__(
        self, stream: IO[bytes], form: Form, stop: Stop, *, json: bool, at_once: bool
    ) -> None:
        self._stream = stream
        self._form = form
        self._stop = stop
        self._json = json
        self._at_once = at_once
        self._pending = bytearray()
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self.events = 0
        self.gaps = 0
        self.last: ReceivedEvent | None = None
        """The newest event that was printed."""
        self.broken = False
        """Whether the reader of the pipe has gone."""

    def event(self, event: ReceivedEvent) -> None:
        """Print an event."""
        self._print(self._form(event))
        if not self.broken:
            self.events += 1
            self.last = event

    def gap(self, gap: Gap) -> None:
        """Tell of a gap on stderr, and among the lines of JSON."""
        self.gaps += 1
        note(gap_as_text(gap))
        if self._json:
            self._print(gap_as_json(gap))

    def change(self, change: TypeChanged) -> None:
        """Tell of a newer version of a type on stderr, and among the lines of JSON."""
        note(change_as_text(change))
        if self._json:
            self._print(change_as_json(change))

    def missing(self, missing: Missing) -> None:
        """Tell of a hole in a bundle on stderr, and among the lines of JSON."""
        note(missing_as_text(missing))
        if self._json:
            self._print(missing_as_json(missing))

    def flush(self) -> None:
        """Write what was printed. A pipe without a reader means that the user has had enough."""
        self._scheduled = False
        data, self._pending = self._pending, bytearray()
        if self.broken:
            return
        try:
            self._stream.write(data)
            self._stream.flush()
        except BrokenPipeError:
            self.broken = True
            self._stop.now()
            self._forget()

    def _print(self, data: bytes) -> None:
        self._pending += data
        if self._at_once or len(self._pending) > _ENOUGH:
            self.flush()
        elif not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def _forget(self) -> None:
        """What the stream still holds must go somewhere when the interpreter ends."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)
