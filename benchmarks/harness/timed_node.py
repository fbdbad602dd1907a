"""A node that measures the steps of an event's way: `twistd`'s arguments follow.

SIGUSR1 clears the times; SIGUSR2 writes [step, seconds, count] to the file in `TIMES_FILE`.
A step's time is that of its functions, without the functions of other steps that they call. The two
changes of thread are from the end of one function to the beginning of the next.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from time import perf_counter
from typing import Any, Final

from twisted.internet.tcp import Connection
from twisted.scripts.twistd import run

from broker.delivery.commit_share import SharedEncodings
from broker.delivery.output import Output
from broker.ingest.input import Input
from broker.log.event_log import EventLog
from broker.log.log_file import LogFile
from broker.matching.switch import Switch
from broker.node.threads import WorkerThread
from broker.sessions.session import Session
from broker.transport.socket.stream import StreamChannel

HAND_OVER: Final = "6 hand over"
HAND_BACK: Final = "8 hand back"
#: The functions of each step of the table in `docs/architecture.md`.
STEPS: Final = (
    ("1 receive", StreamChannel, "_received"),
    ("2 decode", Session, "messages_received"),
    ("3 match and validate", Input, "ingest_waiting"),
    ("3 match and validate", Switch, "match"),
    ("4 authorise", Input, "_authorise_parts"),
    ("5 append", Input, "_append_parts"),
    (HAND_OVER, WorkerThread, "__call__"),
    ("7 commit", LogFile, "commit"),
    (HAND_BACK, EventLog, "_commit_succeeded"),
    ("9 route", Output, "deliver_commit"),
    ("10 encode", SharedEncodings, "encode_portion"),
    ("11 deliver", Session, "send_delivery"),
    ("12 acknowledge", Input, "_record_durable"),
    ("write to sockets", Connection, "doWrite"),
)


class _Times:
    def __init__(self) -> None:
        self.clear()
        self._inner: dict[int, list[float]] = {}
        """By thread: for each open function, the seconds of other steps inside of it."""

    def clear(self, *_: Any) -> None:
        self._seconds = dict.fromkeys((step for step, *_ in STEPS), 0.0)
        self._counts = dict.fromkeys(self._seconds, 0)
        self._handed_over = self._committed = 0.0

    def write(self, *_: Any) -> None:
        rows = [[step, seconds, self._counts[step]] for step, seconds in self._seconds.items()]
        target = Path(os.environ["TIMES_FILE"])
        unfinished = target.with_suffix(".part")
        unfinished.write_text(json.dumps(rows))
        unfinished.rename(target)

    def wrap(self, step: str, owner: type, name: str) -> None:
        function: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter()
            self._add_change_of_thread(name, began)
            stack = self._inner.setdefault(get_ident(), [])
            stack.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                ended = perf_counter()
                spent = ended - began
                self._add(step, spent - stack.pop())
                if stack:
                    stack[-1] += spent
                if name == "__call__":
                    self._handed_over = ended
                elif name == "commit":
                    self._committed = ended

        setattr(owner, name, timed)

    def _add_change_of_thread(self, name: str, now: float) -> None:
        if name == "commit" and self._handed_over:
            self._seconds[HAND_OVER] += now - self._handed_over
        elif name == "_commit_succeeded" and self._committed:
            self._seconds[HAND_BACK] += now - self._committed

    def _add(self, step: str, seconds: float) -> None:
        self._seconds[step] += seconds
        self._counts[step] += 1


if __name__ == "__main__":
    times = _Times()
    for each in STEPS:
        times.wrap(*each)
    signal.signal(signal.SIGUSR1, times.clear)
    signal.signal(signal.SIGUSR2, times.write)
    sys.argv = ["twistd", *sys.argv[1:]]
    run()
