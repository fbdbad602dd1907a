"""Escapes text of peers and events in the log, which somebody reads on a terminal."""

from __future__ import annotations

from typing import cast

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.failure import Failure
from zope.interface import provider

from broker.printable import printable


def escape_log_lines() -> None:
    """Escape the lines of all observers that are added later, as twistd does."""
    globalLogPublisher.addObserver(cast(ILogObserver, escape_event))


@provider(ILogObserver)
def escape_event(event: LogEvent) -> None:
    """Replace the message, and a traceback, by text without control characters."""
    text = formatEvent(event)
    escaped = printable(text)
    if escaped != text:
        event["log_format"], event["escaped"] = "{escaped}", escaped
    failure = event.get("log_failure")
    if isinstance(failure, Failure):
        traceback = failure.getTraceback()
        if printable(traceback) != traceback:
            del event["log_failure"]
            event["log_format"] = "{escaped}"
            event["escaped"] = f"{escaped}\n{printable(traceback)}"
