"""Standard input for a reading thread."""

from __future__ import annotations

import io
import os
import sys
from typing import IO, cast


def open_stdin() -> IO[bytes]:
    """Return an own handle: at exit a thread may block on stdin."""
    stream = sys.stdin.buffer
    try:
        return cast(IO[bytes], open(os.dup(stream.fileno()), "rb"))
    except (OSError, io.UnsupportedOperation):
        return cast(IO[bytes], stream)
