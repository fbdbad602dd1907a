"""Subscribes at a peer and records each message's age on arrival."""

from __future__ import annotations

import re
import select
import time
from typing import Any

from benchmarks.harness import mqtt, nats
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flow import TIMEOUT

_DUE = re.compile(rb"<timestamp>(\d{24})")


class _Nats:
    def __init__(self, port: int) -> None:
        self.sock = nats.connect(port)
        what, how = nats.consumer_request("flights", "flights.1", "deliver")
        self.sock.sendall(
            nats.subscribe("deliver", 1)
            + nats.subscribe("answer", 2)
            + nats.api_request(what, how, "answer")
        )
        self._counter = nats.MessageCounter(b"</flight>")
        self._rest = b""

    def feed(self, data: bytes) -> list[int]:
        """Return the due times in the data, and answer the server's requests."""
        answers = self._counter.feed(data)
        if answers:
            self.sock.sendall(answers)
        whole = self._rest + data
        found = list(_DUE.finditer(whole))
        self._rest = whole[found[-1].end() :] if found else whole[-64:]
        return [int(each[1]) for each in found]


class _Mqtt:
    """Subscriber at QoS 1."""

    def __init__(self, port: int) -> None:
        self.sock = mqtt.connect(port, "subscriber")
        mqtt.subscribe(self.sock, 1)
        self._packets = mqtt.PacketReader()

    def feed(self, data: bytes) -> list[int]:
        """Return the due times in the data, and acknowledge the messages."""
        due, acknowledgements = [], []
        for kind, body in self._packets.feed(data):
            if kind & 0xF0 == 0x30:
                number, message = mqtt.message_of(body)
                acknowledgements.append(mqtt.acknowledge(number))
                found = _DUE.search(message)
                if found is None:
                    raise BenchmarkFailed("a message came without its due time")
                due.append(int(found[1]))
        self.sock.sendall(b"".join(acknowledgements))
        return due


async def play(control: ActorControl, task: Any) -> None:
    """`task`: peer, port, portions.

    Reports pairs: due time (monotonic) and age on arrival, in ns.
    """
    peer = (_Nats if task["peer"] == "nats" else _Mqtt)(task["port"])
    for count in task["portions"]:
        control.report("ready")
        await control.wait_for_start()
        ages: list[tuple[int, int]] = []
        cpu = time.process_time()
        while len(ages) < count:
            if not select.select([peer.sock], [], [], TIMEOUT)[0]:
                raise BenchmarkFailed(f"{count - len(ages)} messages never came")
            data = peer.sock.recv(1 << 16)
            now = time.monotonic_ns()
            if not data:
                raise BenchmarkFailed("the peer closed the connection")
            ages += [(due, now - due) for due in peer.feed(data)]
        control.report("done", ages=ages, cpu=time.process_time() - cpu)


if __name__ == "__main__":
    run_actor(play)
