"""Readers of an MQTT topic that count bytes.

They read every half millisecond, which favours the broker: it then writes more at a time.
"""

from __future__ import annotations

import selectors
import time
from typing import Any

from benchmarks.harness import mqtt
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed

_EVERY = 0.0005
_READ = 1 << 20
_SILENCE = 10.0


def read_all(selector: selectors.BaseSelector, expected: int) -> float:
    """Return the monotonic time of the last bytes."""
    missing = {key.fd: expected for key in selector.get_map().values()}
    last_received = time.monotonic()
    while any(missing.values()):
        time.sleep(_EVERY)
        for key, _ in selector.select(0):
            data = key.fileobj.recv(_READ)  # type: ignore[union-attr]
            last_received = time.monotonic()
            missing[key.fd] -= len(data)
            if not data or missing[key.fd] < 0:
                raise BenchmarkFailed("a reader got other bytes than were published")
        if time.monotonic() > last_received + _SILENCE:
            raise BenchmarkFailed(f"{sum(missing.values())} bytes never came")
    return last_received


async def play(control: ActorControl, task: Any) -> None:
    """`task`: port, subscribers, portions. Each start message has the `bytes` of each reader."""
    with selectors.DefaultSelector() as selector:
        for index in range(task["subscribers"]):
            sock = mqtt.connect(task["port"], f"subscriber-{index}")
            mqtt.subscribe(sock)
            sock.setblocking(False)
            selector.register(sock, selectors.EVENT_READ)
        for _ in task["portions"]:
            control.report("ready")
            expected = (await control.wait_for_start())["bytes"]
            cpu = time.process_time()
            ended = read_all(selector, expected)
            control.report("done", ended=ended, dropped=0, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
