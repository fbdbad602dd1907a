"""Reads STOMP: one subscription of everything, and more with XPath selectors."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from typing import Any

from lxml import etree

from benchmarks.harness import stomp
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_payload
from benchmarks.workloads.flights import rare_queries

_EVERY = 0.0005
_READ = 1 << 20
#: In seconds. The most expensive selectors pass twenty events a second.
_SILENCE = 30.0


def read_all(expected: dict[socket.socket, int]) -> float:
    """Return the monotonic time of the last frame."""
    last_received = time.monotonic()
    missing = dict(expected)
    with selectors.DefaultSelector() as selector:
        for sock in expected:
            selector.register(sock, selectors.EVENT_READ)
        while any(missing.values()):
            time.sleep(_EVERY)
            for key, _ in selector.select(0):
                sock = key.fileobj  # type: ignore[assignment]
                data = sock.recv(_READ)
                last_received = time.monotonic()
                missing[sock] -= data.count(stomp.END)
                if not data or missing[sock] < 0:
                    raise BenchmarkFailed("a reader got other messages than it should")
            if time.monotonic() > last_received + _SILENCE:
                raise BenchmarkFailed(f"{sum(missing.values())} messages never came")
    return last_received


def count_matches(queries: Sequence[str], numbers: range) -> int:
    """Count the deliveries by lxml."""
    compiled = [etree.XPath(f"boolean({query})", regexp=False) for query in queries]
    payloads = [etree.fromstring(flight_payload(number)) for number in numbers]
    return sum(bool(xpath(payload)) for payload in payloads for xpath in compiled)


async def play(control: ActorControl, task: Any) -> None:
    """`task`: port, queries (number of selectors), portions (payloads of each run)."""
    queries = rare_queries(task["queries"])
    everything, selected = stomp.connect(task["port"]), stomp.connect(task["port"])
    stomp.subscribe(everything, 0)
    for number, query in enumerate(queries):
        stomp.subscribe(selected, number, stomp.xpath_selector(query))
    for sock in (everything, selected):
        sock.setblocking(False)
    first = 0
    for count in task["portions"]:
        expected = count_matches(queries, range(first, first + count))
        first += count
        control.report("ready")
        await control.wait_for_start()
        cpu = time.process_time()
        ended = read_all({everything: count, selected: expected})
        spent = time.process_time() - cpu
        control.report("done", ended=ended, dropped=0, cpu=spent, selected=expected)


if __name__ == "__main__":
    run_actor(play)
