"""Print flights above 30,000 feet, under Twisted: subscribe_twisted.py [ENDPOINT]"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from broker.client.twisted_face import connect


async def main(reactor: Any, *endpoints: str) -> None:
    client = connect(*endpoints, reactor=reactor)
    await client.when_connected(10)
    flights = await client.subscribe("/flight[flightleg/altitude > 300]", "flights.>")
    print("waiting for flights above 30,000 feet", flush=True)
    async for event in flights:
        print(event.stream, event.event_id, (event.payload or b"").decode(), flush=True)


react(lambda reactor, *args: Deferred.fromCoroutine(main(reactor, *args)), sys.argv[1:])
