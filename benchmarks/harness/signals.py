"""Ctrl-C, SIGTERM and SIGHUP end a benchmark through every `finally`, but not at any point.

An exception while a process starts would lose the process. Inside `subprocess` it can leave a lock
held for ever.
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
class _SignalState:
    depth: int = 0
    """Of `deferred_signals` blocks."""
    pending: int | None = None
    """Signal that arrived inside a block."""


_state = _SignalState()


def end_on_signals() -> None:
    """These signals raise `KeyboardInterrupt` or `SystemExit`."""
    for number in _SIGNALS:
        signal.signal(number, _handle_signal)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer signals until the outermost block ends."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        if not _state.depth and _state.pending is not None:
            number, _state.pending = _state.pending, None
            _exit_for_signal(number)


def _handle_signal(number: int, _: FrameType | None) -> None:
    if _state.depth:
        _state.pending = number
    else:
        _exit_for_signal(number)


def _exit_for_signal(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
