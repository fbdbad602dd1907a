"""Tasks measured in turn, in rounds of fresh documents, so that what disturbs one disturbs all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from lxml import etree

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.routing.engine import Matched
from broker.node.service import collect_rarely


@attrs.frozen
class Task:
    """Something that is done with every document of a round, or with its first `most`."""

    label: str
    run: Callable[[Sequence[bytes]], Matched]
    queries: int | None = None
    most: int | None = None


@attrs.frozen
class Cost:
    """What a task took, a figure for each round."""

    workload: str
    label: str
    queries: int | None
    micros: Sequence[float]
    """Of processor time, for one event."""
    ratios: Sequence[float]
    """To the bare parse of the same documents in the same round."""
    events: int
    """Over all rounds."""
    matches: int
    evaluations: int
    """XPath expressions that were run."""
    parsed: int
    """Documents that were parsed."""

    @property
    def median(self) -> float:
        """Microseconds for one event."""
        return statistics.median(self.micros)

    @property
    def ratio(self) -> float:
        """To the bare parse: the median of the rounds' ratios."""
        return statistics.median(self.ratios)

    @property
    def mean_ratio(self) -> float:
        """To the bare parse, over all rounds: with the new shapes that a few of them have."""
        return statistics.mean(self.ratios)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {
            **attrs.asdict(self),
            "median_micros": self.median,
            "median_ratio": self.ratio,
            "mean_ratio": self.mean_ratio,
        }


#: Times that a slice is done to warm up.
_MOST_WARMING = 12

#: What all else is compared to.
BARE = Task("lxml parses, nothing else", lambda documents: _parse(documents))


def measure(
    workload: str,
    tasks: Sequence[Task],
    slices: Sequence[Sequence[bytes]],
    say: Callable[[str], None],
) -> list[Cost]:
    """The cost of the bare parse and of each task; the first slice only warms up.

    It does so again and again, until queries are bound to all shapes that it has, or to all but
    the rarest: how long that takes is measured elsewhere.
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
            # As in a node: what is loaded is not traced again and again.
            collect_rarely()
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
    for _ in range(_MOST_WARMING):
        if not task.run(documents).unready:
            return


def sliced(documents: Sequence[bytes], rounds: int) -> list[Sequence[bytes]]:
    """Half of the documents to warm up, and slices of the others, one length, for the rounds."""
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
