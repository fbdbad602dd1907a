"""Counting sessions with many queries that rarely match."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgpack

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.raw_session import RawSession
from benchmarks.workloads.flights import rare_queries
from broker.client.settings import client_settings
from broker.errors import from_wire
from broker.wire import messages
from broker.wire.messages import DELIVER, Credit, Ended, Flowing, Gap, Refuse, Subscribe

_HEAD: Final = struct.Struct(">BII")


class RareSubscriber:
    def __init__(self, endpoint: str, name: str, queries: Sequence[str]) -> None:
        self.events = 0
        self.deliveries = 0
        """With events."""
        self.other = 0
        """Messages without events, such as progress marks."""
        self.dropped = 0
        self._queries = queries
        self._flowing = 0
        self._all_flow: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session = RawSession(endpoint, client_settings(client_id=name), self._receive)

    async def subscribe(self) -> None:
        """Wait until all subscriptions are active."""
        await self.session.connected
        self.session.send_message(Credit(1 << 62))
        for number, query in enumerate(self._queries, 1):
            self.session.send_message(
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
        await asyncio.wait([self._all_flow, self.session.lost], return_when=asyncio.FIRST_COMPLETED)
        if self.session.lost.done():
            self.session.lost.result()

    def _receive(self, data: bytes) -> None:
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
            raise BenchmarkFailed(f"a subscription was ended: {from_wire(message.error)}")


async def play(control: ActorControl, task: Any) -> None:
    """`task`: endpoint, queries (number), sessions (that share them).

    Reports `ready` when all are active, and on request `done` with the counts.
    """
    queries, sessions = rare_queries(task["queries"]), task["sessions"]
    further = [
        RareSubscriber(task["endpoint"], f"further-{index}", queries[index::sessions])
        for index in range(sessions)
    ]
    for each in further:
        await each.subscribe()
    control.report("ready")
    await control.wait_for_start()
    for each in further:
        if each.session.lost.done():
            each.session.lost.result()
    control.report(
        "done",
        events=sum(each.events for each in further),
        deliveries=sum(each.deliveries for each in further),
        other=sum(each.other for each in further),
        dropped=sum(each.dropped for each in further),
    )
    for each in further:
        each.session.close()


if __name__ == "__main__":
    run_actor(play)
