"""Reads STOMP: one subscription of everything, and further ones with XPath selectors."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any

from lxml import etree

from benchmarks.harness import stomp
from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_payload
from benchmarks.workloads.flights import rare_queries

_EVERY = 0.0005
_READ = 1 << 20
#: The dearest selectors let twenty events through in a second.
_SILENCE = 30.0


def read(wanted: dict[socket.socket, int]) -> float:
    """Read so many frames from each socket; when (monotonic seconds) the last one had come."""
    heard = time.monotonic()
    missing = dict(wanted)
    with selectors.DefaultSelector() as selector:
        for sock in wanted:
            selector.register(sock, selectors.EVENT_READ)
        while any(missing.values()):
            time.sleep(_EVERY)
            for key, _ in selector.select(0):
                sock = key.fileobj  # type: ignore[assignment]
                data = sock.recv(_READ)
                heard = time.monotonic()
                missing[sock] -= data.count(stomp.END)
                if not data or missing[sock] < 0:
                    raise BenchmarkFailed("a reader got other messages than it should")
            if time.monotonic() > heard + _SILENCE:
                raise BenchmarkFailed(f"{sum(missing.values())} messages never came")
    return heard


def expected(queries: Sequence[str], numbers: range) -> int:
    """Deliveries that these payloads make to subscriptions with these queries, as lxml says."""
    compiled = [etree.XPath(f"boolean({query})", regexp=False) for query in queries]
    payloads = [etree.fromstring(flight_payload(number)) for number in numbers]
    return sum(bool(xpath(payload)) for payload in payloads for xpath in compiled)


async def play(cue: Cue, task: Any) -> None:
    """`task`: port, queries (how many selectors), portions (payloads that are sent at each cue)."""
    queries = rare_queries(task["queries"])
    everything, selected = stomp.connected(task["port"]), stomp.connected(task["port"])
    stomp.subscribe(everything, 0)
    for number, query in enumerate(queries):
        stomp.subscribe(selected, number, stomp.xpath_selector(query))
    for sock in (everything, selected):
        sock.setblocking(False)
    first = 0
    for count in task["portions"]:
        wanted = expected(queries, range(first, first + count))
        first += count
        cue.say("ready")
        await cue.go()
        cpu = time.process_time()
        ended = read({everything: count, selected: wanted})
        spent = time.process_time() - cpu
        cue.say("done", ended=ended, dropped=0, cpu=spent, selected=wanted)


if __name__ == "__main__":
    act(play)
