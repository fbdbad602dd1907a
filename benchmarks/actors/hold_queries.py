"""An engine with many queries in a process of its own: what they weigh, and its longest turn."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from typing import Any

from benchmarks.harness.cue import Cue, act
from benchmarks.harness.usage import memory
from benchmarks.routing.changes import shares
from benchmarks.routing.engine import Engine, known_dtds
from benchmarks.routing.workload import voevents
from benchmarks.workloads.mix import STANDARD
from broker.node.service import collect_rarely

_libc = ctypes.CDLL(None)


async def play(cue: Cue, task: Any) -> None:
    """`task`: engine, queries, packets (events of them to be matched one at a time, None: all).

    Reports the process's anonymous bytes before the queries, with them, and when all events have
    been seen; and how long (ms of processor time) single matches took.
    """
    workload = voevents(task["packets"])
    texts = workload.queries(task["queries"], STANDARD)
    engine = Engine(task["engine"], known_dtds())
    # What is loaded at the first use is not the queries'.
    engine.match(workload.documents[:1])
    before = _held()
    # As a node does when it starts.
    collect_rarely()
    engine.subscribe(texts, workload.namespaces)
    with_queries = _held()
    took = []
    for document in workload.documents:
        began = time.process_time()
        engine.match([document])
        took.append(1e3 * (time.process_time() - began))
    cue.say(
        "done",
        queries=task["queries"],
        events=len(took),
        before=before,
        with_queries=with_queries,
        after_all_shapes=_held(),
        match_milliseconds=shares(took),
        longest_at=took.index(max(took)),
        statistics=engine.statistics(),
    )


def _held() -> int:
    gc.collect()
    # What was freed counts only when it is given back.
    _libc.malloc_trim(0)
    return memory(os.getpid()).anonymous


if __name__ == "__main__":
    act(play)
