from __future__ import annotations

from typing import Final

#: Run first in a node's process: SIGUSR1 steps its wall clock back by an hour, SIGUSR2 forward by a
#: day, also for `reactor.seconds`.
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
