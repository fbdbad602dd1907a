"""A worker process that kills itself at one event: `poisoned_worker ENDPOINT STATE NUMBER`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from broker.client.asyncio_face import connect
from broker.client.received import ReceivedEvent
from broker.client.worker import Working


async def main(endpoint: str, state: str, deadly: str) -> None:
    async def handle(event: ReceivedEvent) -> None:
        number = (event.payload or b"").partition(b"UAL")[2].partition(b"<")[0].decode()
        if number == deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        print(number, flush=True)

    async with connect(endpoint, client_id="worker", state=Path(state)) as client:
        await client.work(
            handle, "/flight", durable="d", working=Working(max_deliver=2, pause=0.01)
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
