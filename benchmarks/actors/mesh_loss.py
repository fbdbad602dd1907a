"""Meshes of one root, one to four routers and a client that requests nothing again.

Reports the events that the client does not get, of each point in turn.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final, cast

import attrs
from twisted.internet import reactor as the_reactor

from benchmarks.meshes.documents import DocumentFlow, payloads
from benchmarks.meshes.matching import EVERYTHING
from benchmarks.meshes.mesh_node import LinkLoss, ans_of
from benchmarks.meshes.udp_node import PATIENT, UdpNode, call_when
from broker.streams.contract import FlowBatch
from plugins.dcp.connection import Connection
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.receiver import ReceiverSettings

reactor = cast(Any, the_reactor)

#: Bytes: a packet has room for one event.
_SIZE: Final = 750
#: Events each `_GAP` seconds: 250 events/s.
_BURST: Final = 4
_GAP: Final = 0.016
#: Before the loss begins.
_WARM_UP: Final = 40
#: Seconds after which the client goes on without a missing event, and after which it would request
#: one. Copies of all parents come within the first.
_PATIENCE: Final = 0.01
_NEVER: Final = 1e6
#: Seconds in which all nodes connect.
_CONNECTED_WITHIN: Final = 30.0


def report(what: str, **figures: Any) -> None:
    print(json.dumps({"says": what, **figures}), flush=True)


class LossyMesh:
    """One point. The client loses a share of each parent's datagrams after the warm-up."""

    def __init__(self, task: dict[str, Any], on_end: Callable[[LossyMesh], object]) -> None:
        self.task = task
        self.arrived = 0
        parents: int = task["parents"]
        self._on_end = on_end
        self._seed = hash((parents, task["loss"]))
        self._documents = DocumentFlow(payloads(_SIZE))
        self._is_measured = False
        self._root = UdpNode(reactor, "root", PATIENT, (), self._seed)
        self._routers = [
            UdpNode(
                *(reactor, f"router{number}", PATIENT),
                *([self._root.address], self._seed),
            )
            for number in range(parents)
        ]
        never = NackSettings(patience=_PATIENCE, fixed_slow=_NEVER, fixed_fast=_NEVER)
        receiver = ReceiverSettings(nack=never)
        settings = attrs.evolve(PATIENT, parents=parents, receiver=receiver)
        addresses = [each.address for each in self._routers]
        self._client = UdpNode(reactor, "client", settings, addresses, self._seed)
        self._client.mesh.on_delivery = self._count
        self._client.mesh.subscribe(EVERYTHING)
        self._nodes = [self._root, *self._routers, self._client]
        self._connections: list[Connection] = []
        """To the parents, at the begin of the loss."""
        self._failure = reactor.callLater(
            _CONNECTED_WITHIN, self._fail, "the mesh is not connected"
        )
        call_when(reactor, self._is_whole, self._warm_up)

    def _is_whole(self) -> bool:
        return all(each.mesh.is_whole for each in self._nodes)

    def _warm_up(self) -> None:
        self._root.mesh.publish(self._documents.next_batch(_WARM_UP))
        call_when(reactor, lambda: self._client.mesh.current == _WARM_UP, self._begin)

    def _begin(self) -> None:
        self._failure.cancel()
        self._connections = [each.connection for each in self._client.mesh.router.parents]
        self._is_measured = True
        for router in self._routers:
            seed = f"loss {self._seed} {router.mesh.name}"
            self._client.mesh.losses[router.address] = LinkLoss(self.task["loss"], seed)
        self._publish()

    def _publish(self) -> None:
        last = _WARM_UP + self.task["events"]
        count = min(_BURST, last - self._documents.end)
        if count:
            self._root.mesh.publish(self._documents.next_batch(count))
            # A late call does not let later ones follow faster.
            reactor.callLater(_GAP, self._publish)
        else:
            call_when(reactor, lambda: self._client.mesh.current == last, self._end)

    def _count(self, batch: FlowBatch) -> None:
        if self._is_measured:
            self.arrived += len(ans_of(batch))

    def _end(self) -> None:
        ended = [each.error for each in self._connections if each.error]
        if ended or self._client.mesh.router.nacks:
            nacks = self._client.mesh.router.nacks
            self._fail(f"connections to parents ended: {ended}; events were requested: {nacks}")
            return
        dropped = sum(each.dropped for each in self._nodes)
        for each in self._nodes:
            each.stop()
        events = self.task["events"]
        report("point", **self.task, missing=events - self.arrived, dropped=dropped)
        self._on_end(self)

    def _fail(self, reason: str) -> None:
        report("failed", why=f"{self.task}: {reason}")
        os._exit(1)


class PointQueue:
    """Runs some points at a time."""

    def __init__(self, tasks: list[dict[str, Any]], at_once: int) -> None:
        self._waiting = tasks
        for _ in range(at_once):
            self._start_next()

    def _start_next(self, ended: LossyMesh | None = None) -> None:
        if self._waiting:
            LossyMesh(self._waiting.pop(0), self._start_next)


def main() -> None:
    task = json.loads(sys.stdin.readline())
    reactor.callWhenRunning(PointQueue, task["points"], task["at_once"])
    reactor.run()


if __name__ == "__main__":
    main()
