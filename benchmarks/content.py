"""What content routing costs an event, against nothing but parsing it, in one process."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from lxml import etree
from twisted.internet.task import Clock

from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import FLIGHT, flight_documents
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Report, Sheet
from broker.content.contract import Accepted
from broker.content.query.query import parse_query
from broker.content.reference import ReferenceMatcher
from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.event.identity import Mint
from broker.event.stream import StreamPattern

DESCRIPTION: Final = "screening, parsing, validating and matching an event, against a bare parse"

EVENTS: Final = 5_000
ROUNDS: Final = 7
QUERIES: Final = (0, 1, 10, 100)
BARE: Final = "lxml parses, nothing else"

#: Does its work on all documents of a round; the number of matches.
_Task = Callable[[Sequence[bytes]], int]


def run(lab: Lab) -> Report:
    """All tasks in turn, several rounds, so that what disturbs one disturbs all."""
    events, rounds = (500, 2) if lab.quick else (EVENTS, ROUNDS)
    documents = list(flight_documents(Mint("publisher", 1), events))
    tasks: dict[str, _Task] = {BARE: _parse}
    tasks.update({_name(count): _matching(count) for count in QUERIES})
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    matches = {}
    for number in range(rounds):
        lab.say(f"round {number + 1} of {rounds}")
        for name, task in tasks.items():
            gc.collect()
            began = time.perf_counter()
            matches[name] = task(documents)
            seconds[name].append(time.perf_counter() - began)
    micros = {name: [1e6 * each / events for each in found] for name, found in seconds.items()}
    return _report(events, len(documents[0]), micros, matches)


def _name(queries: int) -> str:
    return f"validated, {queries} queries" if queries != 1 else "validated, 1 query"


def _parse(documents: Sequence[bytes]) -> int:
    for document in documents:
        etree.fromstring(document)
    return 0


def _matching(queries: int) -> _Task:
    dtds = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), Clock())
    # From the catalogue it is there at once.
    dtds.lookup(DtdReference(FLIGHT.name, FLIGHT.version), FetchHint(""))
    matcher = ReferenceMatcher(dtds, clock=time.perf_counter)
    for number in range(queries):
        query = parse_query(f'/flight[id = "UAL{1000 + number}"]/flightleg[altitude > 100]', {})
        matcher.subscribe(StreamPattern.parse(">"), query)

    def match(documents: Sequence[bytes]) -> int:
        count = 0
        for verdict in matcher.match(documents):
            if not isinstance(verdict, Accepted):
                raise BenchmarkFailed(f"an event was not accepted: {verdict}")
            count += len(verdict.subscriptions)
        return count

    return match


def _report(
    events: int, size: int, micros: dict[str, list[float]], matches: dict[str, int]
) -> Report:
    medians = {name: statistics.median(found) for name, found in micros.items()}
    return Report(
        name="content",
        sheets=[
            Sheet(
                "Processor time for one event",
                ["what is done", "us/event", "min-max", "ratio to bare", "matches/event"],
                [
                    [
                        name,
                        f"{medians[name]:.2f}",
                        f"{min(found):.2f}-{max(found):.2f}",
                        f"{medians[name] / medians[BARE]:.2f}",
                        f"{matches[name] / events:.3f}",
                    ]
                    for name, found in micros.items()
                ],
            )
        ],
        floors=[],
        notes=[
            f"{events:,} distinct flight events of about {size} bytes, in {len(micros[BARE])} "
            "rounds of all tasks in turn, in one process without sockets or log",
            "validated: screened, parsed, checked against the DTD, defaults applied, envelope "
            "read; the queries are distinct, each asks for a flight's id and an altitude",
        ],
        figures={"microseconds_per_event": micros, "matches": matches, "events": events},
        draw=lambda figure: _draw(micros, figure),
    )


def _draw(micros: dict[str, list[float]], figure: Any) -> None:
    axes = figure.subplots()
    medians = [statistics.median(found) for found in micros.values()]
    bars = axes.barh(list(micros), medians)
    axes.bar_label(bars, [f"{value / medians[0]:.1f}x" for value in medians], padding=3)
    axes.margins(x=0.1)
    axes.invert_yaxis()
    axes.set_xlabel("microseconds of processor time for one event")
