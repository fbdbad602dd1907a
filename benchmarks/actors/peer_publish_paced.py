"""Publishes to a peer at an even pace; each payload contains its due time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness import mqtt, nats
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_payload
from benchmarks.harness.flow import TIMEOUT

_STAMP = b"%024d"
_SUBJECT = "flights.1"
_INBOX = "stored"


class _Nats:
    """JetStream acknowledges each message."""

    def __init__(self, port: int) -> None:
        self.sock = nats.connect(port)
        config = {"name": "flights", "subjects": [_SUBJECT], "storage": "file"}
        nats.call_api(self.sock, "STREAM.CREATE.flights", config, "made")
        self.sock.sendall(nats.subscribe(_INBOX))

    def encode(self, payload: bytes) -> bytes:
        return nats.publish(_SUBJECT, payload, _INBOX)

    def count_acknowledged(self, data: bytes) -> int:
        if b'"error"' in data or b"-ERR" in data:
            raise BenchmarkFailed(f"JetStream refused a message: {data!r}")
        return data.count(b'"seq":')


class _Mqtt:
    """Publisher at QoS 1."""

    def __init__(self, port: int) -> None:
        self.sock = mqtt.connect(port, "publisher")
        self._number = 0
        self._packets = mqtt.PacketReader()

    def encode(self, payload: bytes) -> bytes:
        self._number = self._number % 65_535 + 1
        return mqtt.publish_at_least_once(payload, self._number)

    def count_acknowledged(self, data: bytes) -> int:
        return len(self._packets.feed(data))


_PEERS: dict[str, Callable[[int], _Nats | _Mqtt]] = {"nats": _Nats, "mqtt": _Mqtt}


async def play(control: ActorControl, task: Any) -> None:
    """`task`: peer, port, rate (events a second), portions."""
    peer = _PEERS[task["peer"]](task["port"])
    peer.sock.setblocking(False)
    loop = asyncio.get_running_loop()
    for count in task["portions"]:
        control.report("ready")
        await control.wait_for_start()
        cpu, began, latest = time.process_time(), time.monotonic(), 0.0
        acknowledged = asyncio.ensure_future(_read(peer, count))
        for number in range(count):
            due = began + number / task["rate"]
            ahead = due - time.monotonic()
            if ahead > 0:
                await asyncio.sleep(ahead)
            latest = max(latest, time.monotonic() - due)
            payload = flight_payload(number, _STAMP % int(due * 1e9))
            await loop.sock_sendall(peer.sock, peer.encode(payload))
        await asyncio.wait_for(acknowledged, TIMEOUT)
        control.report("done", late=latest, cpu=time.process_time() - cpu)


async def _read(peer: _Nats | _Mqtt, count: int) -> None:
    loop = asyncio.get_running_loop()
    while count > 0:
        data = await loop.sock_recv(peer.sock, 1 << 16)
        if not data:
            raise BenchmarkFailed("the peer closed the connection")
        count -= peer.count_acknowledged(data)


if __name__ == "__main__":
    run_actor(play)
