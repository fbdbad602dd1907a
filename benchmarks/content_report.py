"""Report of the benchmark `content`: results of each workload, against the floors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.routing.changes import summarise
from benchmarks.routing.findings import Findings
from benchmarks.routing.rounds import BARE, Cost

#: In bare parses: with the queries that also run one by one, and with most.
MAX_PARSES: Final = 1.5
MAX_PARSES_OF_MANY: Final = 6.0
MIN_TIMES_ONE_BY_ONE: Final = 500.0
MAX_MS_OF_A_CHANGE: Final = 1.0
MAX_BYTES_OF_A_QUERY: Final = 2_000.0


def report(findings: Findings) -> Report:
    sheets = [_costs(findings), _alone(findings), _changes(findings)]
    if findings.memory_report is not None:
        sheets.append(_held(findings.memory_report))
    return Report(
        name="content",
        sheets=sheets,
        floors=_floors(findings),
        notes=_notes(findings),
        figures={
            "plan": attrs.asdict(findings.plan),
            "costs": [cost.as_json() for cost in findings.costs],
            "one_by_one": [
                {"workload": each.engine.workload, "ratio": each.ratio}
                for each in findings.one_by_one
            ],
            "changes": [each.as_json() for each in findings.changes],
            "held": findings.memory_report,
            "agreed": findings.agreed,
        },
        draw=lambda figure: _draw(findings, figure),
    )


def bytes_of_a_query(held: dict[str, Any]) -> float:
    """Return the bytes after events of all shapes."""
    return float(held["after_all_shapes"] - held["before"]) / float(held["queries"])


def _floors(findings: Findings) -> list[Floor]:
    plan = findings.plan
    floors = []
    for queries, most in ((plan.compared, MAX_PARSES), (plan.queries[-1], MAX_PARSES_OF_MANY)):
        for workload in findings.sizes:
            # Nothing of a NITF document is known before a parse.
            if workload != "NITF" and (cost := findings.cost(workload, queries)) is not None:
                what = f"{workload}, {queries:,} queries, an event"
                floors.append(Floor(what, cost.ratio, most, "parses", at_least=False))
    for each in findings.one_by_one:
        what = f"{each.engine.workload}, {plan.compared:,} queries, below one by one"
        floors.append(Floor(what, each.ratio, MIN_TIMES_ONE_BY_ONE, "times"))
    for changes in findings.changes:
        for what, figures in changes.rows():
            label = f"{changes.workload}, {what}, among {changes.queries:,} (p99)"
            p99 = summarise(figures)["p99"]
            floors.append(Floor(label, p99, MAX_MS_OF_A_CHANGE, "ms", at_least=False))
    if findings.memory_report is not None:
        label = f"VOEvents, memory of one of {findings.memory_report['queries']:,} queries"
        weight = bytes_of_a_query(findings.memory_report)
        floors.append(Floor(label, weight, MAX_BYTES_OF_A_QUERY, "bytes", at_least=False))
    return floors


def _costs(findings: Findings) -> Sheet:
    return Sheet(
        f"Processor time for one event, engine `{findings.plan.engine}`",
        [
            *("workload", "what is done", "us/event", "min-max", "parses", "min-max", "mean"),
            *("matches/event", "XPath runs/event", "parsed"),
        ],
        [
            [
                cost.workload,
                cost.label,
                format_number(cost.median),
                f"{format_number(min(cost.micros))}-{format_number(max(cost.micros))}",
                format_number(cost.ratio),
                f"{format_number(min(cost.ratios))}-{format_number(max(cost.ratios))}",
                format_number(cost.mean_ratio),
                "" if cost.queries is None else format_number(cost.matches / cost.events),
                "" if cost.queries is None else format_number(cost.evaluations / cost.events),
                f"{100 * cost.parsed / cost.events:.3g}%",
            ]
            for cost in findings.costs
        ],
    )


def _alone(findings: Findings) -> Sheet:
    return Sheet(
        f"The same {findings.plan.compared:,} queries, one by one",
        ["workload", "one by one, ms/event", "on events", "engine, us/event", "times"],
        [
            [
                each.engine.workload,
                format_number(each.alone.median / 1e3),
                format_number(each.alone.events),
                format_number(each.engine.median),
                format_number(each.ratio),
            ]
            for each in findings.one_by_one
        ],
    )


def _changes(findings: Findings) -> Sheet:
    return Sheet(
        f"Milliseconds of processor time for one query among {findings.plan.queries[-1]:,}",
        ["workload", "what", "median", "p99", "max"],
        [
            [changes.workload, what, *(format_number(each) for each in summarise(figures).values())]
            for changes in findings.changes
            for what, figures in [*changes.rows(), ("(reading it, part of adding)", changes.read)]
        ],
    )


def _held(held: dict[str, Any]) -> Sheet:
    took = held["match_milliseconds"]
    subscribed = (held["with_queries"] - held["before"]) / held["queries"]
    return Sheet(
        f"{held['queries']:,} queries on {held['events']:,} VOEvents, in a process of its own",
        ["what", "figure"],
        [
            ["bytes a query, before the first event", format_number(subscribed)],
            [
                "bytes a query, when all events have been seen",
                format_number(bytes_of_a_query(held)),
            ],
            ["anonymous memory of the process, MB", format_number(held["after_all_shapes"] / 1e6)],
            ["one match of one event, median, ms", format_number(took["median"])],
            ["p99, ms", format_number(took["p99"])],
            ["the longest, ms (a new shape among them)", format_number(took["max"])],
        ],
    )


def _notes(findings: Findings) -> list[str]:
    plan = findings.plan
    sizes = ", ".join(f"{name} {size:,.0f} bytes" for name, size in findings.sizes.items())
    agreed = ", ".join(f"{what}: {matches:,}" for what, matches in findings.agreed.items())
    return [
        f"{plan.rounds} rounds of all tasks in turn, each on fresh documents, no two alike, given "
        "in batches of 500 and of 20 ms at most, as a node does, after as many documents as in all "
        f"rounds to warm up; a parse is etree.fromstring of the same documents; {sizes}",
        "parses: the median of the rounds; mean: over all rounds, with those that bring new shapes",
        "an event is screened, proven well-formed and valid, its envelope read, and the numbers of "
        "the subscriptions that it matches are taken out and counted; no sockets, no log",
        "queries are distinct: equalities, prefixes, spans, boxes, several conditions on one "
        "element, and 1 in 100 (harder: 1 in 10) that no index decides, behind a condition that "
        "2 in 10,000 events meet (harder: 1 in 80); XPath runs: queries that the index let through "
        "undecided, or of documents that no shape recognised",
        f"one by one: etree.XPath, compiled before, of each query on each event, defaults applied; "
        f"measured on {plan.sample} events of each round, with as many queries as the engine had, "
        "and taken as the cost of every event",
        "NITF: random documents valid by the DTD, random paths of at most 6 levels, P(*)=0.2, "
        "P(//)=0.2, one in five with a predicate on a value",
        "memory: anonymous resident bytes of the process, less those before the first query was "
        "read; garbage collected, free memory given back",
        f"every engine agrees with lxml, query by query, on {plan.agreeing} events or one more; "
        f"common matches: {agreed}",
        "adding includes reading the query; a change and the next match includes deferred work",
        *(f"left out: {reason}" for reason in findings.missing),
    ]


def _draw(findings: Findings, figure: Any) -> None:
    names = list(findings.sizes)
    for column, name in enumerate(names):
        axes = figure.add_subplot(1, len(names), column + 1)
        shown: Sequence[Cost] = [
            cost
            for cost in findings.costs
            if cost.workload == name and cost.label not in (BARE.label, "one by one")
        ]
        bars = axes.bar([cost.label.replace(" ", "\n") for cost in shown], [c.ratio for c in shown])
        axes.bar_label(bars, [format_number(cost.ratio) for cost in shown], fontsize=7)
        if name != "NITF":
            for most, queries in (
                (MAX_PARSES, findings.plan.compared),
                (MAX_PARSES_OF_MANY, findings.plan.queries[-1]),
            ):
                label = f"bound of {queries:,}"
                axes.axhline(most, color="tab:red", linestyle="--", linewidth=0.8, label=label)
            axes.legend(fontsize=7)
        axes.set_yscale("log")
        axes.set_title(name)
        axes.set_ylabel("parses of the event")
        axes.tick_params(axis="x", labelsize=6)
