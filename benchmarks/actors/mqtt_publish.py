"""Publishes prebuilt MQTT frames over a raw socket, a thousand messages a send."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.harness import mqtt
from benchmarks.harness.cue import Cue, act
from benchmarks.harness.flights import flight_documents, flight_payload
from broker.event.event_id import EventIdGenerator, next_incarnation

_MESSAGES_A_SEND = 1000


async def play(cue: Cue, task: Any) -> None:
    """`task`: port, envelope (whether whole events are sent, or payloads alone), portions."""
    sock = mqtt.connected(task["port"], "publisher")
    sock.settimeout(None)
    mint = EventIdGenerator("publisher", next_incarnation(0, time.time_ns() // 1000))
    first = 0
    for count in task["portions"]:
        if task["envelope"]:
            messages = list(flight_documents(mint, count, first))
        else:
            messages = [flight_payload(number) for number in range(first, first + count)]
        first += count
        sends = [
            b"".join(map(mqtt.publish, messages[start : start + _MESSAGES_A_SEND]))
            for start in range(0, count, _MESSAGES_A_SEND)
        ]
        cue.say("ready", bytes=sum(map(len, sends)))
        await cue.go()
        cpu, began = time.process_time(), time.monotonic()
        for send in sends:
            sock.sendall(send)
        # At QoS 0 the broker says nothing.
        cue.say("done", began=began, accepted=0, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    act(play)
