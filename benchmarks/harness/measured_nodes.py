"""Whole nodes with a publisher at the first one and subscribers at others, run in portions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from benchmarks.actors.subscribe import EVERYTHING
from benchmarks.harness.actor import Actor
from benchmarks.harness.children import Children
from benchmarks.harness.flow import TIMEOUT
from benchmarks.harness.node_process import NodeProcess
from benchmarks.harness.usage import cpu_seconds

#: Configuration of the nodes: a delayed subscriber must not miss events.
QUEUE: Final = "[queue]\nevents = 1000000\n"


@attrs.frozen
class Portion:
    events: int
    seconds: float
    """From the first PUBLISH to the last event at a subscriber."""
    cpu: list[float]
    """Processor seconds of each node."""
    dropped: int


class MeasuredNodes:
    """For each portion call `wait_until_ready`, `start` and `end`."""

    def __init__(
        self,
        children: Children,
        nodes: Sequence[NodeProcess],
        subscribed: Sequence[NodeProcess],
        portions: Sequence[int],
        publishing: Mapping[str, Any],
    ) -> None:
        """`portions` are numbers of events, `publishing` further fields for the publisher."""
        self.nodes = nodes
        self._portions = iter(portions)
        self._subscribers = [
            Actor(
                *(children, "subscribe"),
                {
                    "endpoint": node.endpoint,
                    "subscribers": 1,
                    "portions": portions,
                    "query": EVERYTHING,
                },
            )
            for node in subscribed
        ]
        for each in self._subscribers:
            each.wait_for("ready", TIMEOUT)
        self._are_subscribed = True
        task = {"endpoint": nodes[0].endpoint, "portions": portions, **publishing}
        self._publisher = Actor(children, "publish_prebuilt", task)
        self._before: list[float] = []

    def wait_until_ready(self) -> None:
        """Wait until the next portion is built."""
        self._publisher.wait_for("ready", TIMEOUT)
        for each in () if self._are_subscribed else self._subscribers:
            each.wait_for("ready", TIMEOUT)
        self._are_subscribed = False

    def start(self) -> None:
        self._before = self._read_cpu()
        for each in (*self._subscribers, self._publisher):
            each.start_run()

    def end(self) -> Portion:
        sent = self._publisher.wait_for("done", TIMEOUT)
        came = [each.wait_for("done", TIMEOUT) for each in self._subscribers]
        used = [now - past for now, past in zip(self._read_cpu(), self._before, strict=True)]
        seconds = max([sent["ended"], *(each["ended"] for each in came)]) - sent["began"]
        dropped = sum(each["dropped"] for each in came)
        return Portion(next(self._portions), seconds, used, dropped)

    def stop(self) -> None:
        """Stop the publisher and the subscribers; nodes go on."""
        for each in (*self._subscribers, self._publisher):
            each.stop()

    def _read_cpu(self) -> list[float]:
        return [cpu_seconds(node.pid) for node in self.nodes]
