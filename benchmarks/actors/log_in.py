"""Many clients of one account that log in at once. The secret is hashed before, once for all."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.harness.actor_control import ActorControl, run_actor
from broker.client.asyncio_face import AsyncioLoop
from broker.client.client import Client
from broker.client.login import Credentials
from broker.client.settings import ClientSettings

#: Seconds.
_PATIENCE = 60.0


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, account, secret, clients (number of them)."""
    loop = AsyncioLoop(asyncio.get_running_loop())
    credentials = Credentials(task["account"], task["secret"])
    incarnation = time.time_ns() // 1000

    def start(name: str) -> Client:
        settings = ClientSettings(name, incarnation, credentials=credentials)
        client = Client(loop, [task["endpoint"]], settings)
        client.start()
        return client

    first = start("first")
    await first.when_connected(_PATIENCE)
    control.report("ready")
    await control.wait_for_start()
    began = time.monotonic()
    clients = [start(f"client-{number}") for number in range(task["clients"])]
    await asyncio.gather(*(client.when_connected(_PATIENCE) for client in clients))
    control.report("done", seconds=time.monotonic() - began)
    await control.wait_for_start()


if __name__ == "__main__":
    run_actor(play)
