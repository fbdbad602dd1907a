"""Ctrl-C, SIGTERM and SIGHUP end a benchmark by way of every `finally`, but not just anywhere.

An exception that a signal raises in the midst of starting a process would lose the process, and
within `subprocess` it can leave a lock behind that is waited for ever after.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

import attrs

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@attrs.define
class _Wanted:
    held: int = 0
    """How many `undisturbed` blocks the program is in."""
    pending: int | None = None
    """The signal that came meanwhile."""


_wanted = _Wanted()


def end_on_signals() -> None:
    """From now on these signals raise `KeyboardInterrupt` or `SystemExit`."""
    for number in _SIGNALS:
        signal.signal(number, _heard)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block in which no signal raises; one that came is heeded when the outermost is left."""
    _wanted.held += 1
    try:
        yield
    finally:
        _wanted.held -= 1
        if not _wanted.held and _wanted.pending is not None:
            number, _wanted.pending = _wanted.pending, None
            _end(number)


def _heard(number: int, _: FrameType | None) -> None:
    if _wanted.held:
        _wanted.pending = number
    else:
        _end(number)


def _end(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
