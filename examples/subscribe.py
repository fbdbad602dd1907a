"""Print flights above 30,000 feet as they arrive: subscribe.py [ENDPOINT]"""

from __future__ import annotations

import asyncio
import sys

from broker.client.asyncio_face import connect


async def main() -> None:
    async with connect(*sys.argv[1:]) as client:
        await client.when_connected(10)
        flights = await client.subscribe("/flight[flightleg/altitude > 300]", "flights.>")
        print("waiting for flights above 30,000 feet", flush=True)
        async for event in flights:
            print(event.stream, event.event_id, (event.payload or b"").decode(), flush=True)


asyncio.run(main())
