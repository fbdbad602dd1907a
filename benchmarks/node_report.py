"""The report of the benchmark `node`: what came of each work, against the floors and the peer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.flow import Flow, Spread, as_json
from benchmarks.harness.report import Floor, Report, Sheet, number

FLOOR_EVENTS: Final = 15_000.0
FLOOR_DELIVERIES: Final = 80_000.0

PREBUILT: Final = "node, prebuilt"
CLIENT: Final = "node, client library"
DOCUMENT: Final = "mosquitto, whole event"
PAYLOAD: Final = "mosquitto, payload alone"


@attrs.frozen
class Work:
    """One thing that is measured: all its runs, on one broker process."""

    name: str
    subscribers: int
    flows: Sequence[Flow]
    parses: Sequence[float]
    """What lxml took to parse one event, in microseconds, after each run."""
    events_a_commit: float | None = None

    @property
    def label(self) -> str:
        """As tables name it."""
        return f"{self.name} 1->{self.subscribers}"

    def spread(self, name: str) -> Spread:
        """Of a figure of `Flow`, by its name."""
        return Spread.of(self.flows, lambda flow: float(getattr(flow, name)))

    @property
    def dropped(self) -> int:
        """Events that did not reach every subscriber, over all runs."""
        return sum(flow.dropped for flow in self.flows)


def report(works: Sequence[Work], notes: list[str]) -> Report:
    """Tables, floors and plot of all works."""
    found = {work.label: work for work in works}
    one, ten = found[f"{PREBUILT} 1->1"], found[f"{PREBUILT} 1->10"]
    return Report(
        name="node",
        sheets=[_rates(works), _costs(works)],
        floors=[
            Floor(
                "prebuilt 1->1, events", one.spread("published").median, FLOOR_EVENTS, "events/s"
            ),
            Floor(
                "prebuilt 1->10, deliveries",
                ten.spread("delivered").median,
                FLOOR_DELIVERIES,
                "deliveries/s",
            ),
            Floor(
                "prebuilt, events dropped for slow subscribers",
                one.dropped + ten.dropped,
                1,
                "events",
                at_least=False,
            ),
        ],
        notes=notes,
        figures={
            "works": [
                {
                    "name": work.name,
                    "subscribers": work.subscribers,
                    "events_a_commit": work.events_a_commit,
                    "parse_microseconds": work.parses,
                    "runs": [as_json(flow) for flow in work.flows],
                }
                for work in works
            ]
        },
        draw=lambda figure: _draw(works, figure),
    )


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


def _draw(works: Sequence[Work], figure: Any) -> None:
    for column, subscribers in enumerate((1, 10)):
        axes = figure.add_subplot(1, 2, column + 1)
        shown = [work for work in works if work.subscribers == subscribers]
        spreads = [work.spread("delivered") for work in shown]
        axes.bar(
            [work.name.replace(", ", "\n") for work in shown],
            [spread.median for spread in spreads],
            yerr=[
                [spread.median - spread.least for spread in spreads],
                [spread.most - spread.median for spread in spreads],
            ],
            color=["tab:blue" if work.name.startswith("node") else "tab:grey" for work in shown],
        )
        floor = FLOOR_EVENTS if subscribers == 1 else FLOOR_DELIVERIES
        axes.axhline(floor, color="tab:red", linestyle="--", label="floor, for prebuilt")
        axes.set_title(f"1 publisher, {subscribers} subscriber{'s' if subscribers > 1 else ''}")
        axes.set_ylabel("deliveries a second")
        axes.tick_params(axis="x", labelsize=8)
        axes.legend(loc="upper left")
