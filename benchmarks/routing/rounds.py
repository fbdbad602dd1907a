"""Tasks measured in turn, so that disturbances hit all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from lxml import etree

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.routing.engine import Matched
from broker.node.garbage_collection import configure_garbage_collector


@attrs.frozen
class Task:
    """Work on all documents of a round, or on the first `most`."""

    label: str
    run: Callable[[Sequence[bytes]], Matched]
    queries: int | None = None
    most: int | None = None


@attrs.frozen
class Cost:
    """Cost with one figure for each round."""

    workload: str
    label: str
    queries: int | None
    micros: Sequence[float]
    """Processor time for one event."""
    ratios: Sequence[float]
    """Ratios to the bare parse of the same documents in the same round."""
    events: int
    """Over all rounds."""
    matches: int
    evaluations: int
    """XPath expressions that ran."""
    parsed: int
    """Documents that were parsed."""

    @property
    def median(self) -> float:
        """Microseconds for one event."""
        return statistics.median(self.micros)

    @property
    def ratio(self) -> float:
        """Median ratio to the bare parse."""
        return statistics.median(self.ratios)

    @property
    def mean_ratio(self) -> float:
        """Rounds with new shapes included."""
        return statistics.mean(self.ratios)

    def as_json(self) -> dict[str, Any]:
        return {
            **attrs.asdict(self),
            "median_micros": self.median,
            "median_ratio": self.ratio,
            "mean_ratio": self.mean_ratio,
        }


#: Of a slice.
_MAX_WARM_UPS = 12

#: Baseline of all comparisons.
BARE = Task("lxml parses, nothing else", lambda documents: _parse(documents))


def measure(
    workload: str,
    tasks: Sequence[Task],
    slices: Sequence[Sequence[bytes]],
    say: Callable[[str], None],
) -> list[Cost]:
    """Return the costs of the bare parse and of each task.

    The first slice warms up until queries are bound to all shapes, or to all but the rarest;
    another benchmark measures that time.
    """
    everything = (BARE, *tasks)
    seconds: Mapping[str, list[float]] = {task.label: [] for task in everything}
    done: dict[str, list[Matched]] = {task.label: [] for task in everything}
    for number, documents in enumerate(slices):
        say(
            f"{workload}: round {number} of {len(slices) - 1}" if number else f"{workload}: warm-up"
        )
        for task in everything:
            part = documents[: task.most]
            if not number:
                _warm_up(task, part)
                continue
            # As in a node.
            configure_garbage_collector()
            began = time.process_time()
            matched = task.run(part)
            spent = time.process_time() - began
            seconds[task.label].append(spent / len(part))
            done[task.label].append(matched)
    parsed = seconds[BARE.label]
    return [
        Cost(
            workload,
            task.label,
            task.queries,
            [1e6 * each for each in seconds[task.label]],
            [each / bare for each, bare in zip(seconds[task.label], parsed, strict=True)],
            sum(len(documents[: task.most]) for documents in slices[1:]),
            sum(each.matches for each in done[task.label]),
            sum(each.evaluations for each in done[task.label]),
            sum(each.parsed for each in done[task.label]),
        )
        for task in everything
    ]


def _warm_up(task: Task, documents: Sequence[bytes]) -> None:
    for _ in range(_MAX_WARM_UPS):
        if not task.run(documents).unready:
            return


def split_rounds(documents: Sequence[bytes], rounds: int) -> list[Sequence[bytes]]:
    """Return half of the documents as warm-up, and equal slices of the rest."""
    length = len(documents) // 2 // rounds
    if not length:
        raise BenchmarkFailed(f"{len(documents)} documents are too few for {rounds} rounds")
    first = len(documents) - length * rounds
    starts = range(first, len(documents), length)
    return [documents[:first], *[documents[start : start + length] for start in starts]]


def _parse(documents: Sequence[bytes]) -> Matched:
    for document in documents:
        etree.fromstring(document)
    return Matched(0, 0, len(documents))
