"""Publish a flight, and wait until the node has it on disk: publish.py [ENDPOINT]"""

from __future__ import annotations

import asyncio
import sys

from broker.client.asyncio_face import connect
from broker.event.envelope import EventType

FLIGHT = b"""<flight>
  <id>UAL1021</id>
  <flightleg status="active">
    <speed type="ground">512</speed>
    <altitude type="reported" mode="plain">310</altitude>
    <coordinate><lat>4928N</lat><lon>12003W</lon></coordinate>
  </flightleg>
</flight>"""


async def main() -> None:
    async with connect(*sys.argv[1:]) as client:
        await client.when_connected(10)
        receipt = await client.publish("flights.ual", FLIGHT, EventType("flight", "1.0"))
        print(f"{receipt.event_id} is durable at {receipt.place}")


if __name__ == "__main__":
    asyncio.run(main())
