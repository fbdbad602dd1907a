"""Report of the benchmark `line`: transit against ingress."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from benchmarks.harness.report import Floor, Report, Sheet, format_number

INGRESS: Final = "alone, nobody subscribed"
ALONE: Final = "alone, subscriber"
ALONE_FLAT_OUT: Final = "alone, subscriber, flat out"
MIDDLE: Final = "between two idle neighbours, subscriber"
PLAIN: Final = "line, subscriber at c"
PLAIN_FLAT_OUT: Final = "line, subscriber at c, flat out"
COMPRESSED: Final = "line, compressed, subscriber at c"
TWO: Final = "line, subscribers at b and c"
SELECTIVE: Final = "line, a tenth wanted at c"
EVERY_HOP: Final = 'line, validate = "every-hop", subscriber at c'
KEPT: Final = 'line, acknowledge = "neighbour", subscriber at c'

#: Events pass `b`.
LINES: Final = (PLAIN, PLAIN_FLAT_OUT, COMPRESSED, TWO, SELECTIVE, EVERY_HOP, KEPT)

#: Bound: cost of a hop between trusted nodes, in costs of ingress.
FLOOR: Final = 0.5
#: Events only pass through this node.
_TRANSIT: Final = 1
_NAMES: Final = "abc"
#: The publisher's node in `MIDDLE`; the others are idle.
_IN_THE_MIDDLE: Final = 1


@attrs.frozen
class Crossing:
    work: str
    events: int
    seconds: float
    """From the first send until the last event is acknowledged and delivered."""
    cpu: Sequence[float]
    """Processor seconds of each node."""
    frames: int
    """Begun at the publisher's node."""
    link_bytes: int
    """Sent by the publisher's node."""
    full: int
    """Messages that a full link dropped."""
    pages: int
    """Log pages requested by nodes with missing events."""
    dropped: int
    """Reported to subscribers."""
    others: float
    """Cores that other processes of the machine used meanwhile."""
    parse: float
    """Microseconds that lxml took to parse one event, right after the run."""

    @property
    def rate(self) -> float:
        """Events a second from end to end."""
        return self.events / self.seconds

    def cost(self, node: int) -> float:
        """Return processor microseconds for an event; 0 for a missing node."""
        return 1e6 * self.cpu[node] / self.events if node < len(self.cpu) else 0.0


#: By name.
Works: TypeAlias = Mapping[str, Sequence[Crossing]]


def report(crossings: Sequence[Crossing], notes: list[str]) -> Report:
    works: dict[str, list[Crossing]] = {}
    for each in crossings:
        works.setdefault(each.work, []).append(each)
    network = _ratio(works[MIDDLE], works[ALONE], _IN_THE_MIDDLE)
    transit = _ratio(works[PLAIN], works[INGRESS], _TRANSIT)
    return Report(
        name="line",
        sheets=[_costs(works), _course(works)],
        floors=[
            Floor("transit in a trusted line, to ingress", transit, FLOOR, "times", at_least=False),
            Floor(
                "events dropped for slow subscribers",
                sum(each.dropped for each in crossings),
                1,
                "events",
                at_least=False,
            ),
        ],
        notes=[
            *notes,
            f"being in a network: a node between two idle neighbours uses {network:.2f} times what "
            "it uses alone, with a subscriber in both",
        ],
        figures={
            "runs": [attrs.asdict(each) for each in crossings],
            "transit_to_ingress": {
                name: _ratio(runs, works[INGRESS], _TRANSIT)
                for name, runs in works.items()
                if name in LINES
            },
            "network_to_alone": network,
        },
        draw=lambda figure: _draw(works, figure),
    )


def _ratio(runs: Sequence[Crossing], to: Sequence[Crossing], node: int) -> float:
    """Return the median in costs of the single node of `to`."""
    return statistics.median(
        [run.cost(node) / other.cost(0) for run, other in zip(runs, to, strict=True)]
    )


def _median(runs: Sequence[Crossing], figure: Callable[[Crossing], float]) -> float:
    return statistics.median([figure(run) for run in runs])


def _cost(runs: Sequence[Crossing], node: int) -> float:
    return _median(runs, lambda run: run.cost(node))


def _costs(works: Works) -> Sheet:
    rows = []
    for name, runs in works.items():
        costs = [_cost(runs, node) for node in range(len(runs[0].cpu))]
        rates = [run.rate for run in runs]
        rows.append(
            [
                *(name, format_number(statistics.median(rates))),
                f"{format_number(min(rates))}-{format_number(max(rates))}",
                *(f"{cost:.1f}" for cost in costs),
                *[""] * (len(_NAMES) - len(costs)),
                f"{_ratio(runs, works[INGRESS], _TRANSIT):.2f}" if name in LINES else "",
            ]
        )
    return Sheet(
        "Processor time of each node for one published event",
        ["work", "events/s", "min-max", *(f"{each} us" for each in _NAMES), "b, ingress = 1"],
        rows,
    )


def _course(works: Works) -> Sheet:
    rows = [
        [
            name,
            str(len(runs)),
            format_number(sum(run.events for run in runs) / frames) if frames else "",
            format_number(_median(runs, lambda run: run.link_bytes / run.events)),
            format_number(sum(run.full for run in runs)),
            format_number(sum(run.pages for run in runs)),
            f"{_median(runs, lambda run: run.others):.2f}",
            f"{_median(runs, lambda run: run.parse):.1f}",
        ]
        for name, runs in works.items()
        for frames in [sum(run.frames for run in runs)]
    ]
    return Sheet(
        "How it went",
        [
            *("work", "runs", "events a frame", "bytes an event", "dropped by links", "pages"),
            *("others' cores", "a parse us"),
        ],
        rows,
    )


def _draw(works: Works, figure: Any) -> None:
    axes = figure.subplots()
    names = list(works)
    left = [0.0] * len(names)
    for node, label in enumerate(_NAMES):
        costs = [_cost(works[name], node) for name in names]
        axes.barh(names, costs, left=left, label=label)
        left = [before + cost for before, cost in zip(left, costs, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("processor microseconds for one event, by node")
    axes.tick_params(axis="y", labelsize=7)
    axes.legend()
