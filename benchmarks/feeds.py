"""Events of public formats with and without a DTD, and with other prefixes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.routing.engine import ENGINE, Engine, Matched, load_dtds
from benchmarks.routing.one_by_one import check_agreement
from benchmarks.routing.rounds import Cost, Task, measure, split_rounds
from benchmarks.workloads.feed_documents import NAMES, FeedDocuments, feed_documents
from benchmarks.workloads.feed_queries import FeedQueries, feed_queries
from broker.dtd.dtd import Dtd
from broker.dtd.xsd.table_process import shared_tables
from broker.matching.contract import NO_VARIANTS, Variants
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED

DESCRIPTION: Final = "CAP and SWIM with 500 queries: with a DTD, a schema, other prefixes, or none"

QUERIES: Final = 500
ROUNDS: Final = 8
_DOCUMENTS: Final = 8_000
#: For a look at the workings.
_QUICK_ROUNDS: Final = 2
_QUICK_DOCUMENTS: Final = 400
_AGREEING: Final = 4


@attrs.frozen
class Validation:
    """How the events of a task are validated."""

    label: str
    variants: Variants = NO_VARIANTS
    rebound: bool = False
    has_schema: bool = False
    floor: float = 0.0
    """Least events a second, as a share of the first one's."""


#: The others are compared with the first one.
VALIDATIONS: Final = (
    Validation("described"),
    Validation("described, other prefixes", rebound=True, floor=0.8),
    Validation("described, with a schema", has_schema=True, floor=0.5),
    Validation("undescribed", EVERY_TYPE_UNDESCRIBED, floor=0.8),
)


def run(context: BenchmarkContext) -> Report:
    rounds, count = (_QUICK_ROUNDS, _QUICK_DOCUMENTS) if context.quick else (ROUNDS, _DOCUMENTS)
    feeds = []
    costs: dict[str, list[Cost]] = {}
    agreed = {}
    for name in NAMES:
        context.report_progress(f"{name}: making {count:,} events")
        feed = feed_documents(name, count)
        feeds.append(feed)
        queries = feed_queries(feed.events[: count // 2], QUERIES)
        tasks, agreed[name] = _make_tasks(feed, queries)
        slices = split_rounds(feed.events, rounds)
        costs[name] = measure(name, tasks, slices, context.report_progress)
    return report(feeds, costs, agreed)


def _make_tasks(feed: FeedDocuments, queries: FeedQueries) -> tuple[list[Task], int]:
    """Return tasks, and the matches in which engine and lxml agree."""
    dtds = load_dtds()
    dtds.add(*feed.dtd)
    await_slot_types(dtds.add(*feed.schema))
    rebound = dict(zip(feed.events, feed.rebound, strict=True))
    tasks = []
    agreed = 0
    for each in VALIDATIONS:
        variants = {feed.dtd[0]: feed.schema[0]} if each.has_schema else each.variants
        engine = Engine(ENGINE, dtds, variants)
        numbers = engine.subscribe(queries.texts, queries.namespaces)

        def match(
            events: Sequence[bytes], engine: Engine = engine, other: bool = each.rebound
        ) -> Matched:
            return engine.match([rebound[event] for event in events] if other else events)

        documents = (feed.rebound if each.rebound else feed.events)[
            :: max(1, len(feed.events) // _AGREEING)
        ]
        agreed += check_agreement(
            engine, numbers, queries.texts, queries.namespaces, documents, dtds
        )
        tasks.append(Task(each.label, match, QUERIES))
    return tasks, agreed


def await_slot_types(dtd: Dtd) -> None:
    """Return when the checks of values that the schema needs are known."""
    while dtd.schema is not None and dtd.schema.slot_types is None:
        shared_tables().wait()


def report(
    feeds: Sequence[FeedDocuments], costs: Mapping[str, Sequence[Cost]], agreed: Mapping[str, int]
) -> Report:
    floors = [
        Floor(
            f"{name}, {each.label}, events/s",
            share_of_first(found, each.label),
            each.floor,
            f"of {VALIDATIONS[0].label}",
        )
        for name, found in costs.items()
        for each in VALIDATIONS[1:]
    ]
    sizes = ", ".join(
        f"{feed.name} {feed.size:,.0f} bytes ({'real' if feed.is_real else 'made up'})"
        for feed in feeds
    )
    return Report(
        name="feeds",
        sheets=[_sheet(costs)],
        floors=floors,
        notes=[
            f"engine `{ENGINE}` with {QUERIES} distinct queries of the standard mix of `content`; "
            "the DTD is inferred from the documents before their values are varied",
            f"events: {sizes}; numbers and identifiers differ in each, structures recur",
            "comments are removed, and documents with references or quotes in texts are left out: "
            "they would be parsed in each case",
            "the schema is made from the events: numbers, times, enumerations",
            "other prefixes: three bindings of the same namespaces in turn",
            "events/s: of a second of processor time, in the median round; tasks alternate, each "
            "round on fresh documents",
            "engine and lxml agree on the common matches: "
            + ", ".join(f"{name} {count:,}" for name, count in agreed.items()),
        ],
        figures={
            "costs": [cost.as_json() for found in costs.values() for cost in found],
            "agreed": dict(agreed),
            "real": {feed.name: feed.is_real for feed in feeds},
        },
        draw=lambda figure: _draw(costs, figure),
    )


def events_per_second(cost: Cost) -> float:
    return 1e6 / cost.median


def share_of_first(costs: Sequence[Cost], label: str) -> float:
    """Return the median of the rounds' ratios, so that disturbances hit both."""
    found = {cost.label: cost for cost in costs}
    first, other = found[VALIDATIONS[0].label], found[label]
    return statistics.median(one / two for one, two in zip(first.micros, other.micros, strict=True))


def _sheet(costs: Mapping[str, Sequence[Cost]]) -> Sheet:
    return Sheet(
        "Matching of events of public formats",
        [
            *("feed", "validation", "events/s", "us/event", "min-max", "parses"),
            *("matches/event", "parsed"),
        ],
        [
            [
                cost.workload,
                cost.label,
                format_number(events_per_second(cost)),
                format_number(cost.median),
                f"{format_number(min(cost.micros))}-{format_number(max(cost.micros))}",
                format_number(cost.ratio),
                "" if cost.queries is None else format_number(cost.matches / cost.events),
                f"{100 * cost.parsed / cost.events:.3g}%",
            ]
            for found in costs.values()
            for cost in found
        ],
    )


def _draw(costs: Mapping[str, Sequence[Cost]], figure: Any) -> None:
    for column, (name, found) in enumerate(costs.items()):
        axes = figure.add_subplot(1, len(costs), column + 1)
        bars = axes.bar(
            [cost.label.replace(" ", "\n") for cost in found],
            [events_per_second(cost) for cost in found],
        )
        axes.bar_label(bars, [format_number(events_per_second(cost)) for cost in found], fontsize=7)
        axes.set_title(name)
        axes.set_ylabel("events a second")
        axes.tick_params(axis="x", labelsize=6)
