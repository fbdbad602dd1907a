"""Sessions with many queries that rarely match, which count what they get."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgpack

from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.lean_session import LeanSession
from benchmarks.workloads.flights import rare_queries
from broker.client.settings import client_settings
from broker.errors import from_wire
from broker.wire import messages
from broker.wire.messages import DELIVER, Credit, Ended, Flowing, Gap, Refuse, Subscribe

_HEAD: Final = struct.Struct(">BII")


class FurtherSubscriber:
    """One session with several subscriptions; what is delivered is counted by the headers."""

    def __init__(self, endpoint: str, name: str, queries: Sequence[str]) -> None:
        self.events = 0
        self.deliveries = 0
        """Messages that brought them."""
        self.other = 0
        """Messages that brought none: marks of how far the node has got."""
        self.dropped = 0
        self._queries = queries
        self._flowing = 0
        self._all_flow: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = LeanSession(endpoint, client_settings(client_id=name), self._take)

    async def subscribe(self) -> None:
        """Connect, subscribe, and wait until all of it flows."""
        await self.session.up
        self.session.say(Credit(1 << 62))
        for number, query in enumerate(self._queries, 1):
            self.session.say(
                Subscribe(
                    number=number,
                    pattern=">",
                    query=query,
                    namespaces={},
                    durable="",
                    start="new",
                    position=(),
                    time=0,
                )
            )
        await asyncio.wait(
            [self._all_flow, self.session.broken], return_when=asyncio.FIRST_COMPLETED
        )
        if self.session.broken.done():
            self.session.broken.result()

    def _take(self, data: bytes) -> None:
        if data[0] == DELIVER:
            _, length, _ = _HEAD.unpack_from(data)
            header = msgpack.unpackb(memoryview(data)[_HEAD.size : _HEAD.size + length])
            self.events += len(header[-1])
            self.deliveries += 1
            return
        self.other += 1
        message = messages.decode(data)
        if isinstance(message, Flowing):
            self._flowing += 1
            if self._flowing == len(self._queries):
                self._all_flow.set_result(None)
        elif isinstance(message, Gap):
            self.dropped += message.count
        elif isinstance(message, Ended | Refuse):
            raise BenchmarkFailed(f"a further subscription was ended: {from_wire(message.error)}")


async def play(cue: Cue, task: Any) -> None:
    """`task`: endpoint, queries (how many), sessions (that share them).

    Says `ready` when all flow; `done`, once asked, with the counts over everything till then.
    """
    queries, sessions = rare_queries(task["queries"]), task["sessions"]
    further = [
        FurtherSubscriber(task["endpoint"], f"further-{index}", queries[index::sessions])
        for index in range(sessions)
    ]
    for each in further:
        await each.subscribe()
    cue.say("ready")
    await cue.go()
    for each in further:
        if each.session.broken.done():
            each.session.broken.result()
    cue.say(
        "done",
        events=sum(each.events for each in further),
        deliveries=sum(each.deliveries for each in further),
        other=sum(each.other for each in further),
        dropped=sum(each.dropped for each in further),
    )
    for each in further:
        each.session.close()


if __name__ == "__main__":
    act(play)
