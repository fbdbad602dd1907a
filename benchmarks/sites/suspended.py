"""Memory of sites while another one is suspected: its process is stopped, its connections stay."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.actor import Actor
from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.group_nodes import read_stack, start_group
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.report import Floor
from benchmarks.harness.usage import memory

#: Messages a second.
RATE: Final = 200
#: Seconds of traffic before the suspicion: caches are full then.
WARM_UP: Final = 20
SECONDS: Final = 60.0
#: MiB.
FLOOR: Final = 32.0
_BATCH: Final = 20
_GLANCE: Final = 0.5
_PATIENCE: Final = 15.0


@attrs.frozen
class Suspended:
    suspected: float
    """Seconds from the stop of the process until its suspicion."""
    growth: list[float]
    """MiB without files, at each of the other sites: the most above the begin of the suspicion."""


def measure(context: BenchmarkContext) -> Suspended:
    warm_up, seconds = (2, 3.0) if context.quick else (WARM_UP, SECONDS)
    with context.empty_folder() as folder:
        nodes = start_group(context.children, folder, "rcm", 3)
        portions = [RATE * warm_up, RATE * round(seconds + _PATIENCE)]
        task: dict[str, Any] = {"endpoint": nodes[0].endpoint, "portions": portions}
        publisher = Actor(
            context.children, "publish_prebuilt", {**task, "batch": _BATCH, "rate": RATE}
        )
        context.report_progress("messages before the suspicion")
        publisher.wait_for("ready", TIMEOUT)
        publisher.start_run()
        publisher.wait_for("done", TIMEOUT)
        publisher.wait_for("ready", TIMEOUT)
        publisher.start_run()
        suspended = _suspend(context, nodes, seconds)
        publisher.wait_for("done", TIMEOUT)
        publisher.stop()
        for node in nodes:
            node.stop()
    return suspended


def _suspend(context: BenchmarkContext, nodes: Sequence[NodeProcess], seconds: float) -> Suspended:
    *others, last = nodes
    os.kill(last.pid, signal.SIGSTOP)
    try:
        stopped_at = time.monotonic()
        while time.monotonic() < stopped_at + _PATIENCE:
            if not all(_sees_connected(node) for node in others):
                break
            time.sleep(_GLANCE)
        suspected_at = time.monotonic()
        before = [memory(node.pid).anonymous for node in others]
        most = list(before)
        while time.monotonic() < suspected_at + seconds:
            context.report_progress(f"suspected for {time.monotonic() - suspected_at:.0f} s")
            time.sleep(_GLANCE)
            most = [
                max(each, memory(node.pid).anonymous)
                for each, node in zip(most, others, strict=True)
            ]
    finally:
        os.kill(last.pid, signal.SIGCONT)
    growth = [(after - each) / 2**20 for after, each in zip(most, before, strict=True)]
    return Suspended(suspected_at - stopped_at, growth)


def _sees_connected(node: NodeProcess) -> bool:
    return all(each["status"] == "connected" for each in read_stack(node)["peers"])


def make_floor(result: Suspended) -> Floor:
    return Floor(
        *("memory while a site is suspected for 60 s", max(result.growth), FLOOR, "MiB"),
        at_least=False,
    )
