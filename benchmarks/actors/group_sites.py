"""Sites of two groups in one process, over TCP: with the order, and without it."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

from twisted.internet import reactor as the_reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import deferLater

from benchmarks.sites.plain_site import PlainSite
from broker.streams.messaging import Delivery, IGroupClient, Item
from broker.transport.message import Message
from examples.free_ports import free_ports
from plugins.rcm.group_site import create_context
from plugins.rcm.options import RcmOptions
from plugins.rcm.transport import RcmTransport

reactor = cast(Any, the_reactor)

_PAYLOAD: Final = bytes(100)
_PATIENCE: Final = 30.0
#: All sites share a processor: the default of `delta`, 0.25 s, is for sites with their own.
_DELTA: Final = 2.0


def report(what: str, **figures: Any) -> None:
    print(json.dumps({"says": what, **figures}), flush=True)


class Group:
    """Each client sends its next message when all sites have got its last one."""

    def __init__(self, sites: dict[str, RcmTransport | PlainSite], clients: int) -> None:
        self._sites = sites
        self._clients: dict[str, IGroupClient] = {}
        self._waiting: dict[str, int] = {}
        """Sites that do not have the last message of a client, by its payload's number."""
        self._left = self._under_way = 0
        self.deliveries = self.late = 0
        self._done: Deferred[None] = Deferred()
        for number in range(clients):
            for name, site in sites.items():
                receive = self._count if number else self._receive
                client = site.open_client(f"client {number}", receive)
                self._clients[f"{name} {number}"] = client

    async def wait_until_connected(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not all(map(self._is_connected, self._sites.values())):
            if time.monotonic() > deadline:
                report("failed", why=f"the sites did not connect in {_PATIENCE:g} s")
                sys.exit(1)
            await deferLater(reactor, 0.1)

    @staticmethod
    def _is_connected(site: RcmTransport | PlainSite) -> bool:
        peers = cast(Sequence[dict[str, object]], site.snapshot()["peers"])
        return all(each["status"] == "connected" for each in peers)

    def stop(self) -> Deferred[Any]:
        return gatherResults([site.stop() for site in self._sites.values()])

    async def run(self, messages: int) -> dict[str, float]:
        """Return seconds, processor seconds, deliveries to clients, and late ones."""
        self._left, self._done = messages, Deferred()
        self.deliveries = self.late = 0
        begin, cpu = time.perf_counter(), time.process_time()
        for key in list(self._clients)[:messages]:
            self._send(key)
        await self._done
        seconds, used = time.perf_counter() - begin, time.process_time() - cpu
        return {
            "seconds": seconds,
            "cpu": used,
            "deliveries": self.deliveries,
            "late": self.late,
        }

    def _send(self, key: str) -> None:
        self._left -= 1
        self._under_way += 1
        self._waiting[key] = len(self._sites)
        client = self._clients[key]
        client.send(Message(_PAYLOAD, destinations=client.sites))

    def _count(self, item: Item) -> None:
        self.deliveries += 1

    def _receive(self, item: Item) -> None:
        if not isinstance(item, Delivery):
            return
        self.deliveries += 1
        self.late += item.late is not None
        source = item.source
        key = f"{source.site} {source.client.removeprefix('client ')}"
        self._waiting[key] -= 1
        if not self._waiting[key]:
            self._under_way -= 1
            if self._left:
                self._send(key)
            elif not self._under_way:
                self._done.callback(None)


def _create(kind: str, names: str, folder: Path) -> dict[str, RcmTransport | PlainSite]:
    ports = free_ports(len(names))
    addresses = {
        name: f"tcp:host=127.0.0.1:port={port}" for name, port in zip(names, ports, strict=True)
    }
    options = RcmOptions(sites=addresses, delta=_DELTA)
    create = PlainSite if kind == "plain" else RcmTransport
    return {
        name: create(create_context(name, options, folder / kind / name, reactor, group=kind))
        for name in names
    }


async def play(task: dict[str, Any]) -> None:
    """Measure and report. The caller ends this process."""
    with tempfile.TemporaryDirectory() as folder:
        groups = {}
        for kind in task["kinds"]:
            sites = _create(kind, "abcdefghij"[: task["sites"]], Path(folder))
            for site in sites.values():
                site.listen()
                site.start()
            groups[kind] = Group(sites, task["clients"])
        for group in groups.values():
            await group.wait_until_connected()
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        for messages in task["portions"]:
            for kind, group in groups.items():
                report("done", kind=kind, messages=messages, **await group.run(messages))
        await gatherResults([group.stop() for group in groups.values()])


def _start(task: dict[str, Any]) -> None:
    def failed(failure: Any) -> None:
        report("failed", why=failure.getErrorMessage())
        reactor.stop()

    Deferred.fromCoroutine(play(task)).addErrback(failed)


def main() -> None:
    reactor.callWhenRunning(_start, json.loads(sys.stdin.readline()))
    reactor.run()


if __name__ == "__main__":
    main()
