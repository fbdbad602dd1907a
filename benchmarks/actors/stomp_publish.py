"""Publishes prebuilt STOMP frames over a raw socket; the last one asks for a receipt."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness import stomp
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.flights import flight_payload

_MESSAGES_A_SEND = 1000


async def play(control: ActorControl, task: Any) -> None:
    """`task`: port, portions (payloads of each run)."""
    sock = stomp.connect(task["port"])
    sock.settimeout(None)
    first = 0
    for count in task["portions"]:
        numbers = range(first, first + count)
        first += count
        frames = [stomp.publish(flight_payload(number)) for number in numbers[:-1]]
        frames.append(stomp.publish(flight_payload(numbers[-1]), receipt=str(first)))
        sends = [
            b"".join(frames[start : start + _MESSAGES_A_SEND])
            for start in range(0, count, _MESSAGES_A_SEND)
        ]
        control.report("ready", bytes=sum(map(len, sends)))
        await control.wait_for_start()
        cpu, began = time.process_time(), time.monotonic()
        for send in sends:
            sock.sendall(send)
        stomp.await_receipt(sock)
        control.report("done", began=began, accepted=count, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
