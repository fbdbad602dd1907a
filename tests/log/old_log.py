"""Writes a log with the code on the path: run with that of an older version."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

try:
    from broker.log.commit import Commit, Retention
    from broker.log.commit import ReplicaBatch as Keeping
    from broker.log.log_file import LogFile
    from broker.log.logged_event import LoggedEvent
except ModuleNotFoundError:
    # The name in older trees.
    from broker.store.commit import Commit, Keeping, Retention
    from broker.store.log_file import LogFile
    from broker.store.records import LoggedEvent


def made(origin: str, first: int, count: int, serial: int) -> list[LoggedEvent]:
    return [
        LoggedEvent(
            1,
            first + i,
            1_000 + serial + i,
            1,
            b"r%d" % (first + i),
            b"<e>%d</e>" % (first + i) + b" " * 1000,
            origin,
            serial + i,
        )
        for i in range(count)
    ]


def write(folder: Path) -> None:
    log = LogFile(folder, Retention(), sync=False)
    own = log.origin
    log.commit(Commit(made(own, 1, 70, 1), covered={own: (1, 70)}), 1, 0)
    log.commit(
        Commit(
            made("far", 11, 70, 71),
            marks=[(("a", 3), bytes(24))],
            durables=[(b"a\0d", b"\x90stored")],
            clients=[("a", b"newest")],
            covered={"far": (1, 90)},
            since={"far": (1, 10)},
            keeping=[Keeping("kept", (1, 0), (1, 4), made("kept", 1, 4, 0), "c/kept")],
        ),
        1,
        0,
    )
    log.commit(Commit(made(own, 71, 2, 141), covered={own: (1, 72)}), 1, 0)
    if "crash" in sys.argv:
        log.crash()
    else:
        log.close()


if __name__ == "__main__":
    assert inspect.getfile(LogFile).startswith(sys.argv[2])
    write(Path(sys.argv[1]))
