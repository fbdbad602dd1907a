"""A wall clock that signals step, for node processes."""

from __future__ import annotations

from typing import Final

#: A node's process runs this first. SIGUSR1 steps its wall clock back by an hour, SIGUSR2 forward
#: by a day. Everything based on `time.time` sees it, also `reactor.seconds`.
PRELUDE: Final = """
import signal, time
real, real_ns, offset = time.time, time.time_ns, 0
def step(by):
    global offset
    offset += by
time.time = lambda: real() + offset
time.time_ns = lambda: real_ns() + offset * 10**9
import twisted.python.runtime
twisted.python.runtime.seconds = time.time
signal.signal(signal.SIGUSR1, lambda *_: step(-3600))
signal.signal(signal.SIGUSR2, lambda *_: step(86400))
"""
