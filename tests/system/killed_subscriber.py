"""A subscriber to kill: `python -m tests.system.killed_subscriber ENDPOINT KIND STATE`.

It writes the sequence number of each handled event, a line each.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from broker.client.asyncio_face import connect
from broker.client.received import ReceivedEvent


async def handle(event: ReceivedEvent) -> None:
    os.write(1, b"%d\n" % event.event_id.sequence_number)


async def main(endpoint: str, kind: str, state: str) -> None:
    folder = None if kind == "durable" else Path(state)
    async with connect(endpoint, client_id=kind, state=folder) as client:
        if kind == "working":
            await client.work(handle, durable="d")
            return
        async for event in await client.subscribe(durable="d"):
            await handle(event)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
