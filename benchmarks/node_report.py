"""Report of the benchmark `node`: results of each work, against the floors and the peers."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.harness.work import Work

#: In addition to the subscribers of everything.
EXTRA_QUERIES: Final = 1_000
#: Bounds with these queries loaded.
FLOOR_EVENTS: Final = 40_000.0
FLOOR_DELIVERIES: Final = 150_000.0
#: Rate in rates of ActiveMQ with these queries.
FLOOR_TIMES_ACTIVEMQ: Final = 500.0

PREBUILT: Final = "node, prebuilt"
CLIENT: Final = "node, client library"
DOCUMENT: Final = "mosquitto, whole event"
PAYLOAD: Final = "mosquitto, payload alone"
ACTIVEMQ: Final = "ActiveMQ, payload alone"


def report(works: Sequence[Work], notes: list[str]) -> Report:
    return Report(
        name="node",
        sheets=[_rates(works), _costs(works), _extra_queries(works)],
        floors=_floors(works),
        notes=notes,
        figures={
            "works": [work.as_json() for work in works],
            "times_activemq": _times_activemq(works),
        },
        draw=lambda figure: _draw(works, figure),
    )


def _floors(works: Sequence[Work]) -> list[Floor]:
    found = {(work.name, work.subscribers, work.queries): work for work in works}
    floors = []
    ours = [found[PREBUILT, subscribers, EXTRA_QUERIES] for subscribers in (1, 10)]
    for work, figure, bound, unit in zip(
        ours,
        ("published", "delivered"),
        (FLOOR_EVENTS, FLOOR_DELIVERIES),
        ("events/s", "deliveries/s"),
        strict=True,
    ):
        floors.append(Floor(work.label, work.spread(figure).median, bound, unit))
    if (times := _times_activemq(works)) is not None:
        what = f"prebuilt 1->1, {EXTRA_QUERIES:,} queries, to ActiveMQ with the same"
        floors.append(Floor(what, times, FLOOR_TIMES_ACTIVEMQ, "times"))
    dropped = sum(work.dropped for work in works if work.name == PREBUILT)
    what = "prebuilt, events dropped for slow subscribers"
    floors.append(Floor(what, dropped, 1, "events", at_least=False))
    return floors


def _times_activemq(works: Sequence[Work]) -> float | None:
    """Return the rate in rates of ActiveMQ with all extra queries; None without it."""
    found = {(work.name, work.subscribers, work.queries): work for work in works}
    peer = found.get((ACTIVEMQ, 1, EXTRA_QUERIES))
    if peer is None:
        return None
    ours = found[PREBUILT, 1, EXTRA_QUERIES].spread("published").median
    return ours / peer.spread("published").median


def _rates(works: Sequence[Work]) -> Sheet:
    peers = {(work.name, work.subscribers): work for work in works}
    rows = []
    for work in works:
        into, out = work.spread("published"), work.spread("delivered")
        ratios = []
        for name in (DOCUMENT, PAYLOAD):
            peer = peers.get((name, work.subscribers))
            ours = work.name in (PREBUILT, CLIENT) and peer is not None
            ratios.append(
                f"{out.median / peer.spread('delivered').median:.2f}" if ours and peer else ""
            )
        rows.append(
            [
                work.label,
                str(len(work.flows)),
                format_number(into.median),
                f"{format_number(into.least)}-{format_number(into.most)}",
                format_number(out.median),
                f"{format_number(out.least)}-{format_number(out.most)}",
                *ratios,
            ]
        )
    return Sheet(
        "One broker process, TCP on loopback",
        [
            *("work", "runs", "events/s in", "min-max", "deliveries/s", "min-max"),
            *("mosquitto (event) = 1", "mosquitto (payload) = 1"),
        ],
        rows,
    )


def _costs(works: Sequence[Work]) -> Sheet:
    rows = []
    for work in works:
        commit = work.events_a_commit
        micros, parse = work.spread("microseconds").median, statistics.median(work.parses)
        rows.append(
            [
                work.label,
                f"{micros:.1f}",
                f"{parse:.1f}",
                f"{micros / parse:.1f}",
                f"{work.spread('cores').median:.2f}",
                format_number(work.spread("resident").most / 1e6),
                format_number(work.spread("anonymous").most / 1e6),
                "" if commit is None else format_number(commit),
                ""
                if commit is None
                else format_number(sum(flow.acknowledged for flow in work.flows)),
                format_number(work.dropped),
                f"{work.spread('others').median:.2f}",
            ]
        )
    return Sheet(
        "Cost for the broker, and disturbances",
        [
            *("work", "CPU us/event", "a parse us", "in parses", "cores", "RSS MB", "RssAnon MB"),
            *("a commit", "acknowledged", "dropped", "others' cores"),
        ],
        rows,
    )


def _extra_queries(works: Sequence[Work]) -> Sheet:
    return Sheet(
        "Extra queries",
        ["work", "queries", "events", "delivered", "a thousand events", "dropped"],
        [
            [
                work.label,
                format_number(work.queries),
                format_number(work.extra_queries.published),
                format_number(work.extra_queries.delivered),
                format_number(1e3 * work.extra_queries.delivered / work.extra_queries.published),
                format_number(work.extra_queries.dropped),
            ]
            for work in works
            if work.extra_queries is not None
        ],
    )


def _draw(works: Sequence[Work], figure: Any) -> None:
    for column, subscribers in enumerate((1, 10)):
        axes = figure.add_subplot(1, 2, column + 1)
        shown = [work for work in works if work.subscribers == subscribers]
        spreads = [work.spread("delivered") for work in shown]
        bars = axes.barh(
            [_short(work) for work in shown],
            [spread.median for spread in spreads],
            xerr=[
                [spread.median - spread.least for spread in spreads],
                [spread.most - spread.median for spread in spreads],
            ],
            color=["tab:blue" if work.name.startswith("node") else "tab:grey" for work in shown],
        )
        axes.bar_label(
            bars, [format_number(spread.median) for spread in spreads], padding=3, fontsize=7
        )
        floor = FLOOR_EVENTS if subscribers == 1 else FLOOR_DELIVERIES
        label = f"floor, prebuilt with {EXTRA_QUERIES:,} queries"
        axes.axvline(floor, color="tab:red", linestyle="--", label=label)
        if any(work.name == ACTIVEMQ for work in shown):
            # The peer is slower by three orders of magnitude.
            axes.set_xscale("log")
        axes.margins(x=0.2)
        axes.invert_yaxis()
        axes.set_title(f"1 publisher, {subscribers} subscriber{'s' if subscribers > 1 else ''}")
        axes.set_xlabel("deliveries a second")
        axes.tick_params(axis="y", labelsize=7)
        axes.legend(loc="upper left", fontsize=7)


def _short(work: Work) -> str:
    queries = f",\n{work.queries:,} queries" if work.queries else ""
    return work.name + queries
