from __future__ import annotations

from io import StringIO
from typing import cast

from twisted.logger import ILogObserver, LogEvent, Logger, LogPublisher, textFileLogObserver
from twisted.python.failure import Failure

from broker.node.log_escape import escape_event

EVIL = "\x1b]0;owned\x07\x9b2J\u202egnp.exe"


def logged(write: object) -> str:
    out = StringIO()
    publisher = LogPublisher(cast(ILogObserver, escape_event), textFileLogObserver(out))
    logger = Logger("peers", observer=publisher)
    write(logger)  # type: ignore[operator]
    return out.getvalue()


def test_text_of_a_peer_does_not_command_the_reader_of_the_log() -> None:
    text = logged(lambda logger: logger.info("from {peer}: {text}", peer="a", text=EVIL))
    assert "from a: \\x1b]0;owned\\x07\\x9b2J\\x202egnp.exe" in text
    assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_a_traceback_is_escaped_too() -> None:
    text = logged(lambda logger: logger.failure("failed", Failure(ValueError(EVIL))))
    assert "failed" in text and "ValueError: \\x1b]0;" in text
    assert not set(text) & set("\x1b\x07\x9b\u202e")


def test_other_events_stay_as_they_are() -> None:
    event: LogEvent = {"log_format": "{n} things", "n": 2}
    escape_event(event)
    assert event == {"log_format": "{n} things", "n": 2}
