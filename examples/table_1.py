"""Print the queries of the papers' Table 1 that each flight matches: table_1.py [ENDPOINT]

A latitude is degrees, minutes and a hemisphere, as in 4928N. All these flights are north of the
equator, and those of more than 2326 north of the Tropic of Cancer.
"""

from __future__ import annotations

import asyncio
import sys

from broker.client.asyncio_face import connect
from broker.client.subscription import Subscription

QUERIES = (
    "true()",
    "/flight/flightleg/altitude > 300",
    'starts-with(string(/flight/id), "TWA")',
    "substring(string(/flight/flightleg/coordinate/lat), 1, 4) > 2326",
)


async def show(query: str, flights: Subscription) -> None:
    async for event in flights:
        print(event.event_id, query, flush=True)


async def main() -> None:
    async with connect(*sys.argv[1:]) as client:
        await client.when_connected(10)
        subscriptions = [await client.subscribe(query, "flights.>") for query in QUERIES]
        print("waiting for flights", flush=True)
        await asyncio.gather(*map(show, QUERIES, subscriptions))


asyncio.run(main())
