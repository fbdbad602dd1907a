"""The report of the benchmark `node`: what came of each work, against the floors and the peer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

from benchmarks.harness.report import Floor, Report, Sheet, number
from benchmarks.harness.work import Work

#: Queries besides those of the subscribers that take everything.
FURTHER: Final = 1_000
#: With these queries loaded, as without them.
FLOOR_EVENTS: Final = 40_000.0
FLOOR_DELIVERIES: Final = 150_000.0
#: With these queries loaded, as many times the rate of ActiveMQ with the same ones.
FLOOR_TIMES_ACTIVEMQ: Final = 500.0

PREBUILT: Final = "node, prebuilt"
CLIENT: Final = "node, client library"
DOCUMENT: Final = "mosquitto, whole event"
PAYLOAD: Final = "mosquitto, payload alone"
ACTIVEMQ: Final = "ActiveMQ, payload alone"


def report(works: Sequence[Work], notes: list[str]) -> Report:
    """Tables, floors and plot of all works."""
    return Report(
        name="node",
        sheets=[_rates(works), _costs(works), _besides(works)],
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
    ours = [found[PREBUILT, subscribers, FURTHER] for subscribers in (1, 10)]
    for work, figure, bound, unit in zip(
        ours,
        ("published", "delivered"),
        (FLOOR_EVENTS, FLOOR_DELIVERIES),
        ("events/s", "deliveries/s"),
        strict=True,
    ):
        floors.append(Floor(work.label, work.spread(figure).median, bound, unit))
    if (times := _times_activemq(works)) is not None:
        what = f"prebuilt 1->1, {FURTHER:,} queries, to ActiveMQ with the same"
        floors.append(Floor(what, times, FLOOR_TIMES_ACTIVEMQ, "times"))
    dropped = sum(work.dropped for work in works if work.name == PREBUILT)
    what = "prebuilt, events dropped for slow subscribers"
    floors.append(Floor(what, dropped, 1, "events", at_least=False))
    return floors


def _times_activemq(works: Sequence[Work]) -> float | None:
    """Our rate in rates of ActiveMQ, both with all further queries; None where it was not run."""
    found = {(work.name, work.subscribers, work.queries): work for work in works}
    peer = found.get((ACTIVEMQ, 1, FURTHER))
    if peer is None:
        return None
    ours = found[PREBUILT, 1, FURTHER].spread("published").median
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
                number(into.median),
                f"{number(into.least)}-{number(into.most)}",
                number(out.median),
                f"{number(out.least)}-{number(out.most)}",
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
                number(work.spread("resident").most / 1e6),
                number(work.spread("anonymous").most / 1e6),
                "" if commit is None else number(commit),
                "" if commit is None else number(sum(flow.acknowledged for flow in work.flows)),
                number(work.dropped),
                f"{work.spread('others').median:.2f}",
            ]
        )
    return Sheet(
        "What it cost the broker, and what disturbed it",
        [
            *("work", "CPU us/event", "a parse us", "in parses", "cores", "RSS MB", "RssAnon MB"),
            *("a commit", "acknowledged", "dropped", "others' cores"),
        ],
        rows,
    )


def _besides(works: Sequence[Work]) -> Sheet:
    """What the queries got that rarely match."""
    return Sheet(
        "The queries besides",
        ["work", "queries", "events", "delivered", "a thousand events", "dropped"],
        [
            [
                work.label,
                number(work.queries),
                number(work.beside.published),
                number(work.beside.delivered),
                number(1e3 * work.beside.delivered / work.beside.published),
                number(work.beside.dropped),
            ]
            for work in works
            if work.beside is not None
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
        axes.bar_label(bars, [number(spread.median) for spread in spreads], padding=3, fontsize=7)
        floor = FLOOR_EVENTS if subscribers == 1 else FLOOR_DELIVERIES
        label = f"floor, prebuilt with {FURTHER:,} queries"
        axes.axvline(floor, color="tab:red", linestyle="--", label=label)
        if any(work.name == ACTIVEMQ for work in shown):
            # The peer that filters on content is slower by three orders of magnitude.
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
