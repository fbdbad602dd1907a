"""Report of the benchmark `ingest`: effect of archiving on live traffic."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.flow import Flow, as_json
from benchmarks.harness.report import Floor, Report, Sheet, format_number

#: Bound: share of live throughput lost with the archive.
FLOOR: Final = 0.1


@attrs.frozen
class Archived:
    events: int
    behind: int
    """Events not archived yet when the last one was delivered."""
    late: float
    """Seconds from then until they were archived."""
    seconds: float
    """From the first send until all were archived."""
    cpu: float
    """Processor seconds."""

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds


@attrs.frozen
class Run:
    subscribers: int
    flow: Flow
    parse: float
    """Microseconds that lxml took to parse one event, right after the run."""
    archived: Archived | None

    @property
    def label(self) -> str:
        return f"1->{self.subscribers}, archive {'off' if self.archived is None else 'on'}"


def report(runs: Sequence[Run], notes: list[str]) -> Report:
    works: dict[str, list[Run]] = {}
    for run in runs:
        works.setdefault(run.label, []).append(run)
    subscribers = sorted({run.subscribers for run in runs})
    falls = {each: fall(runs, each) for each in subscribers}
    return Report(
        name="ingest",
        sheets=[_rates(works), _archived(works)],
        floors=[
            *(
                Floor(f"1->{each}, fall of live throughput", falls[each], FLOOR, "", at_least=False)
                for each in subscribers
            ),
            Floor(
                "events dropped for slow subscribers",
                sum(run.flow.dropped for run in runs),
                1,
                "events",
                at_least=False,
            ),
        ],
        notes=notes,
        figures={
            "falls": {str(each): value for each, value in falls.items()},
            "runs": [
                {
                    "subscribers": run.subscribers,
                    "parse_microseconds": run.parse,
                    "archived": None if run.archived is None else attrs.asdict(run.archived),
                    **as_json(run.flow),
                }
                for run in runs
            ],
        },
        draw=lambda figure: _draw(works, figure),
    )


def fall(runs: Sequence[Run], subscribers: int) -> float:
    """Return the lost share of throughput; below 0: none."""
    of = [run for run in runs if run.subscribers == subscribers]
    off = [run.flow.published for run in of if run.archived is None]
    on = [run.flow.published for run in of if run.archived is not None]
    return 1 - statistics.median(on) / statistics.median(off)


def _rates(works: dict[str, list[Run]]) -> Sheet:
    rows = []
    for label, runs in works.items():
        rates = [run.flow.published for run in runs]
        rows.append(
            [
                label,
                str(len(runs)),
                format_number(statistics.median(rates)),
                f"{format_number(min(rates))}-{format_number(max(rates))}",
                format_number(_median(runs, lambda run: run.flow.delivered)),
                f"{_median(runs, lambda run: run.flow.microseconds):.1f}",
                f"{_median(runs, lambda run: run.parse):.1f}",
                f"{_median(runs, lambda run: run.flow.cores):.2f}",
                f"{_median(runs, lambda run: run.flow.others):.2f}",
            ]
        )
    return Sheet(
        "Live traffic through one node",
        [
            *("work", "runs", "events/s in", "min-max", "deliveries/s"),
            *("CPU us/event", "a parse us", "cores", "others' cores, with the archiver"),
        ],
        rows,
    )


def _archived(works: dict[str, list[Run]]) -> Sheet:
    rows = []
    for label, runs in works.items():
        done = [run.archived for run in runs if run.archived is not None]
        if not done:
            continue
        behind, late = [each.behind for each in done], [each.late for each in done]
        rows.append(
            [
                label,
                format_number(statistics.median([each.rate for each in done])),
                f"{statistics.median([1e6 * each.cpu / each.events for each in done]):.1f}",
                format_number(statistics.median(behind)),
                format_number(max(behind)),
                f"{statistics.median(late):.1f}",
                f"{max(late):.1f}",
            ]
        )
    return Sheet(
        "Archiving during the runs",
        [
            *("work", "archived events/s", "archiver's CPU us/event", "behind, events", "most"),
            *("caught up, s", "most"),
        ],
        rows,
    )


def _median(runs: Sequence[Run], figure: Callable[[Run], float]) -> float:
    return statistics.median([figure(run) for run in runs])


def _draw(works: dict[str, list[Run]], figure: Any) -> None:
    axes = figure.add_subplot()
    labels = list(works)
    rates = [[run.flow.published for run in works[label]] for label in labels]
    middles = [statistics.median(each) for each in rates]
    bars = axes.barh(
        labels,
        middles,
        xerr=[
            [middle - min(each) for middle, each in zip(middles, rates, strict=True)],
            [max(each) - middle for middle, each in zip(middles, rates, strict=True)],
        ],
        color=["tab:grey" if label.endswith("off") else "tab:blue" for label in labels],
    )
    axes.bar_label(bars, [format_number(middle) for middle in middles], padding=3)
    axes.margins(x=0.2)
    axes.invert_yaxis()
    axes.set_xlabel("live events a second")
