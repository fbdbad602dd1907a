"""An engine with many queries: its memory, and its longest match."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from typing import Any

from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.usage import memory
from benchmarks.routing.changes import summarise
from benchmarks.routing.engine import Engine, load_dtds
from benchmarks.routing.workload import voevents
from benchmarks.workloads.mix import STANDARD
from broker.node.garbage_collection import configure_garbage_collector

_libc = ctypes.CDLL(None)


async def play(control: ActorControl, task: Any) -> None:
    """`task`: engine, queries, packets (events to match one at a time; None: all).

    Reports the anonymous bytes before the queries, with them, and after all events; and the
    processor time (ms) of single matches.
    """
    workload = voevents(task["packets"])
    texts = workload.queries(task["queries"], STANDARD)
    engine = Engine(task["engine"], load_dtds())
    # Exclude modules and caches that are loaded at the first use.
    engine.match(workload.documents[:1])
    before = _anonymous_bytes()
    # As a node does.
    configure_garbage_collector()
    engine.subscribe(texts, workload.namespaces)
    with_queries = _anonymous_bytes()
    took = []
    for document in workload.documents:
        began = time.process_time()
        engine.match([document])
        took.append(1e3 * (time.process_time() - began))
    control.report(
        "done",
        queries=task["queries"],
        events=len(took),
        before=before,
        with_queries=with_queries,
        after_all_shapes=_anonymous_bytes(),
        match_milliseconds=summarise(took),
        longest_at=took.index(max(took)),
        statistics=engine.statistics(),
    )


def _anonymous_bytes() -> int:
    gc.collect()
    # Freed memory counts until it is returned.
    _libc.malloc_trim(0)
    return memory(os.getpid()).anonymous


if __name__ == "__main__":
    run_actor(play)
