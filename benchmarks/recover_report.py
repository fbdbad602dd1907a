"""Report of the benchmark `recover`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.report import Floor, Report, Sheet, format_number

#: Of events that the node has itself.
LOG: Final = "log"
#: Bound: time of a thousand clients in times of one.
MAX_RATIO: Final = 10.0


@attrs.frozen
class Cold:
    """Recovery at a node that has just started."""

    engine: str
    listening: float
    """Seconds from the start of the node until it listened."""
    first: float
    """Seconds from the start until the client had the first recovered event."""
    events: int


@attrs.frozen
class Recovery:
    """Clients returned at the same time. Times are in seconds."""

    source: str
    """`log`, or the engine that searched the archive."""
    clients: int
    events: int
    """Delivered to all clients together."""
    shared: bool
    """True if the clients' queries divide the events; otherwise one client gets all."""
    connecting: float
    """Until all had sessions; not part of the other times."""
    first: float
    """From the first client's request to the first event at any client."""
    seconds: float
    """From the first client's request to the last event of all."""
    deliveries: int
    """Messages with the events."""
    jobs: int
    cpu: float
    """Processor seconds of the clients' process."""
    parse: float
    """Microseconds that lxml took to parse one event, at that time."""


def report(
    count: int, cold: Sequence[Cold], returns: Sequence[Recovery], missing: str = ""
) -> Report:
    """`missing` is the reason for running without Spark."""
    shared = [each for each in returns if each.shared]
    alone = [each for each in returns if not each.shared]
    return Report(
        name="recover",
        sheets=[_cold(cold), _single_client(alone), _many_clients(shared, count)],
        floors=_floors(shared),
        notes=[
            f"{count:,} flight events of one origin in an archive that was written directly "
            "(`ArchiveWriter`), in files of 50,000; the origin is lost, and a node that never had "
            "its events, as `twistd` runs it, serves all from there by its replay process",
            "log: events that the node has taken in itself, without an archive",
            "cold: from the start of the node's process to the first event at a client that is "
            "there when it listens; all other recoveries are at the same node, warm; medians",
            "clients are real sessions in one process, with a query each; they read the headers of "
            "deliveries, and check number and order. The clock starts when all have sessions, and "
            "the first says where it has got to; connecting, s: until then",
            "jobs: of the replay process; requests within 100 ms share one",
            *([f"without Spark: {missing}"] if missing else []),
        ],
        figures={
            "events": count,
            "cold": [attrs.asdict(each) for each in cold],
            "returns": [attrs.asdict(each) for each in returns],
            "missing": missing,
        },
        draw=lambda figure: _draw(shared, figure),
    )


def _floors(shared: Sequence[Recovery]) -> list[Floor]:
    one = {each.source: each.seconds for each in shared if each.clients == 1}
    most = max((each.clients for each in shared), default=1)
    return [
        Floor(
            f"{each.source}: {each.clients:,} clients against one",
            *(each.seconds / one[each.source], MAX_RATIO, "times"),
            at_least=False,
        )
        for each in shared
        if each.clients == most and most > 1
    ]


def _cold(cold: Sequence[Cold]) -> Sheet:
    return Sheet(
        "Cold: seconds from the start of the node",
        ["engine", "listens", "first event", "events"],
        [
            [each.engine, f"{each.listening:.2f}", f"{each.first:.2f}", format_number(each.events)]
            for each in cold
        ],
    )


def _single_client(alone: Sequence[Recovery]) -> Sheet:
    return Sheet(
        "One client that missed so many events, with a query for all",
        ["from", "missed", "first, s", "all, s", "events/s"],
        [
            [
                *(
                    each.source,
                    format_number(each.events),
                    f"{each.first:.3f}",
                    f"{each.seconds:.3f}",
                ),
                format_number(each.events / each.seconds),
            ]
            for each in alone
        ],
    )


def _many_clients(shared: Sequence[Recovery], count: int) -> Sheet:
    one = {each.source: each.seconds for each in shared if each.clients == 1}
    return Sheet(
        f"Clients that come back at once to {count:,} events, each event for one of them",
        [
            *("from", "clients", "connecting, s", "first, s", "all, s", "one client = 1"),
            *("events/s", "messages", "jobs", "clients' CPU s"),
        ],
        [
            [
                *(each.source, format_number(each.clients), f"{each.connecting:.2f}"),
                *(f"{each.first:.2f}", f"{each.seconds:.2f}"),
                f"{each.seconds / one[each.source]:.2f}",
                *(format_number(each.events / each.seconds), format_number(each.deliveries)),
                *(format_number(each.jobs), f"{each.cpu:.2f}"),
            ]
            for each in shared
        ],
    )


def _draw(shared: Sequence[Recovery], figure: Any) -> None:
    axes = figure.subplots()
    for source in dict.fromkeys(each.source for each in shared):
        mine = [each for each in shared if each.source == source]
        axes.plot(
            *([each.clients for each in mine], [each.seconds for each in mine]),
            marker="o",
            label=source,
        )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clients that come back at once")
    axes.set_ylabel("seconds until all have all")
    axes.legend()
