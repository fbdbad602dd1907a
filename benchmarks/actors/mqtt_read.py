"""Readers of an MQTT topic that count bytes: all sockets in one selector.

They look every half millisecond and not as soon as there is something: that is kinder to the
broker, which then writes more at a time, and gives it the better figures.
"""

from __future__ import annotations

import selectors
import time
from typing import Any

from benchmarks.harness import mqtt
from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed

_EVERY = 0.0005
_READ = 1 << 20
_SILENCE = 10.0


def read(selector: selectors.BaseSelector, wanted: int) -> float:
    """Read so many bytes from each socket; when (monotonic seconds) the last one had come."""
    missing = {key.fd: wanted for key in selector.get_map().values()}
    heard = time.monotonic()
    while any(missing.values()):
        time.sleep(_EVERY)
        for key, _ in selector.select(0):
            data = key.fileobj.recv(_READ)  # type: ignore[union-attr]
            heard = time.monotonic()
            missing[key.fd] -= len(data)
            if not data or missing[key.fd] < 0:
                raise BenchmarkFailed("a reader got other bytes than were published")
        if time.monotonic() > heard + _SILENCE:
            raise BenchmarkFailed(f"{sum(missing.values())} bytes never came")
    return heard


async def play(cue: Cue, task: Any) -> None:
    """`task`: port, subscribers, portions. Each cue brings the `bytes` that each reader gets."""
    with selectors.DefaultSelector() as selector:
        for index in range(task["subscribers"]):
            sock = mqtt.connected(task["port"], f"subscriber-{index}")
            mqtt.subscribe(sock)
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
        for _ in task["portions"]:
            cue.say("ready")
            wanted = (await cue.go())["bytes"]
            cpu = time.process_time()
            ended = read(selector, wanted)
            cue.say("done", ended=ended, dropped=0, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    act(play)
