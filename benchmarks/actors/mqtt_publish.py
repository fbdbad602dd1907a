"""Publishes prebuilt MQTT frames over a raw socket, a thousand messages a send."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness import mqtt
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.flights import flight_documents, flight_payload
from broker.event.event_id import EventIdGenerator, next_incarnation

_MESSAGES_A_SEND = 1000


async def play(control: ActorControl, task: Any) -> None:
    """`task`: port, envelope (whole events, or payloads alone), portions."""
    sock = mqtt.connect(task["port"], "publisher")
    sock.settimeout(None)
    event_ids = EventIdGenerator("publisher", next_incarnation(0, time.time_ns() // 1000))
    first = 0
    for count in task["portions"]:
        if task["envelope"]:
            messages = list(flight_documents(event_ids, count, first))
        else:
            messages = [flight_payload(number) for number in range(first, first + count)]
        first += count
        sends = [
            b"".join(map(mqtt.publish, messages[start : start + _MESSAGES_A_SEND]))
            for start in range(0, count, _MESSAGES_A_SEND)
        ]
        control.report("ready", bytes=sum(map(len, sends)))
        await control.wait_for_start()
        cpu, began = time.process_time(), time.monotonic()
        for send in sends:
            sock.sendall(send)
        # At QoS 0 the broker does not answer.
        control.report("done", began=began, accepted=0, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
