"""Leaves of one router, and the root that feeds it as fast as the slowest leaf gets the documents.

The documents on their way are bounded, so that no datagram finds a full receive buffer. The leaves
count the events of a packet and do not decode them: a machine of few processors would measure the
leaves.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, cast

from twisted.internet import reactor as the_reactor

from benchmarks.meshes.documents import DocumentFlow, events
from benchmarks.meshes.udp_node import PATIENT, UdpNode, call_when
from broker.errors import ProtocolError
from broker.node.garbage_collection import configure_garbage_collector
from broker.streams.contract import FlowBatch
from plugins.dcp import connection
from plugins.dcp.event_range import ENTRY, EventRange

reactor = cast(Any, the_reactor)

#: Documents that the root publishes at once, and most that not all leaves have.
_BATCH: Final = 64
_ON_THEIR_WAY: Final = 1_024
#: Seconds in which all nodes connect, and in which the documents arrive.
_CONNECTED_WITHIN: Final = 30.0
_ARRIVED_WITHIN: Final = 300.0


def report(what: str, **figures: Any) -> None:
    print(json.dumps({"says": what, **figures}), flush=True)


class CountedRanges:
    """Counts the events of all leaves in place of `decode_range`; their ANs must rise."""

    def __init__(self) -> None:
        self.events = 0

    def decode(self, previous: int, upto: int, epoch: int, body: bytes) -> EventRange:
        start, last = 0, previous
        while start < len(body):
            an, _, record_bytes, document_bytes = ENTRY.unpack_from(body, start)
            if not last < an <= upto:
                raise ProtocolError(f"an event with the AN {an} in the range ({previous}, {upto}]")
            last = an
            start += ENTRY.size + record_bytes + document_bytes
            self.events += 1
        return EventRange(previous, upto)


class Leaf:
    def __init__(
        self, name: str, router: tuple[str, int], queries: Sequence[str], feed: Feed
    ) -> None:
        self._feed = feed
        self.node = UdpNode(reactor, name, PATIENT, [router], 1)
        self.node.mesh.on_delivery = self._take
        self.node.mesh.subscribe(*queries)

    def _take(self, batch: FlowBatch) -> None:
        self._feed.leaf_advanced()

    @property
    def current(self) -> int:
        return self.node.mesh.current


class Feed:
    """The root, which publishes the documents of a warm-up and of the measurement."""

    def __init__(self) -> None:
        self._root = UdpNode(reactor, "root", PATIENT, (), 1)
        self._documents = DocumentFlow(events())
        self._counted = CountedRanges()
        connection.decode_range = self._counted.decode  # type: ignore[attr-defined]
        self._counted_before = 0
        self._leaves: list[Leaf] = []
        self._warm_up = self._last = 0
        self._began = 0.0
        self._is_feeding = False

    @property
    def address(self) -> tuple[str, int]:
        return self._root.address

    def start(self, task: dict[str, Any], router: tuple[str, int]) -> None:
        self._warm_up = task["warm_up"]
        self._last = self._warm_up + task["documents"]
        self._leaves = [
            Leaf(f"leaf{n}", router, queries, self) for n, queries in enumerate(task["queries"])
        ]
        failure = reactor.callLater(_CONNECTED_WITHIN, self.fail, "the leaves are not connected")

        def begin() -> None:
            failure.cancel()
            reactor.callLater(_ARRIVED_WITHIN, self.fail, "documents are missing")
            self._feed()

        call_when(reactor, self._is_whole, begin)

    def _is_whole(self) -> bool:
        return all(each.node.mesh.is_whole for each in self._leaves)

    def leaf_advanced(self) -> None:
        """Feed further documents once the read of a socket is handled."""
        if not self._is_feeding:
            self._is_feeding = True
            reactor.callLater(0, self._feed)

    def _feed(self) -> None:
        self._is_feeding = False
        slowest = min(each.current for each in self._leaves)
        if slowest >= self._warm_up and not self._began:
            self._began = time.monotonic()
            self._counted_before = self._counted.events
            report("begun")
        if slowest == self._last:
            self._end()
            return
        goal = self._last if self._began else self._warm_up
        while self._documents.end < min(goal, slowest + _ON_THEIR_WAY):
            count = min(_BATCH, goal - self._documents.end)
            self._root.mesh.publish(self._documents.next_batch(count))

    def _end(self) -> None:
        seconds = time.monotonic() - self._began
        nodes = [self._root, *(each.node for each in self._leaves)]
        dropped = sum(each.dropped for each in nodes)
        arrived = self._counted.events - self._counted_before
        report("done", seconds=seconds, arrived=arrived, dropped=dropped)

    def fail(self, reason: str) -> None:
        report("failed", why=reason)
        os._exit(1)


def main() -> None:
    task = json.loads(sys.stdin.readline())
    feed = Feed()
    configure_garbage_collector()
    report("ready", address=feed.address)
    router = tuple(json.loads(sys.stdin.readline())["router"])
    reactor.callWhenRunning(feed.start, task, router)
    reactor.run()


if __name__ == "__main__":
    main()
