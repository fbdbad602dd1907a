"""A node that counts calls of functions in `broker/`, by thread: `twistd`'s arguments follow.

SIGUSR1 clears the counts; SIGUSR2 writes them to `COUNTS_FILE`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from twisted.scripts.twistd import run

_counts: Counter[tuple[str, str, str]] = Counter()


def _count(frame: FrameType, event: str, _: Any) -> None:
    if event != "call":
        return
    code = frame.f_code
    _, inside, module = code.co_filename.rpartition("/broker/")
    if inside:
        _counts[threading.current_thread().name, module, code.co_qualname] += 1


def _clear(*_: Any) -> None:
    _counts.clear()


def _write(*_: Any) -> None:
    rows = [[*what, count] for what, count in _counts.items()]
    target = Path(os.environ["COUNTS_FILE"])
    unfinished = target.with_suffix(".part")
    unfinished.write_text(json.dumps(rows))
    unfinished.rename(target)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _clear)
    signal.signal(signal.SIGUSR2, _write)
    threading.setprofile(_count)
    sys.setprofile(_count)
    sys.argv = ["twistd", *sys.argv[1:]]
    run()
