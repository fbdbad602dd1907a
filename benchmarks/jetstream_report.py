"""The report of the benchmark `jetstream`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.report import Floor, Report, Sheet, number

#: Our time against its.
MOST_TIMES: Final = 2.0


@attrs.frozen
class Round:
    """Our clients, and soon after them its consumers. Seconds count at the clients."""

    engine: str
    number: int
    ours: float
    """From the first client's wish to the last event at the last one."""
    ours_first: float
    """The same to the first event."""
    jobs: int
    """Of our replay process."""
    ours_cpu: float
    """Processor seconds of our clients' process."""
    theirs: float
    """From the wish for the first consumer to the last message at the last one."""
    theirs_first: float
    server_cpu: float
    """Processor seconds of its server."""
    theirs_cpu: float
    """Processor seconds of its readers' process."""

    @property
    def ratio(self) -> float:
        """Our time, where its is 1."""
        return self.ours / self.theirs


def report(
    count: int, rounds: Sequence[Round], version: str, kept: tuple[int, int], missing: str = ""
) -> Report:
    """Tables, floors and plot. `kept`: bytes in our archive, and in its stream."""
    engines = list(dict.fromkeys(each.engine for each in rounds))
    ratios = {
        engine: statistics.median(each.ratio for each in rounds if each.engine == engine)
        for engine in engines
    }
    jobs = {
        engine: statistics.median(each.jobs for each in rounds if each.engine == engine)
        for engine in engines
    }
    floors = [
        Floor(f"{each}: JetStream's time", ratios[each], MOST_TIMES, "times", at_least=False)
        for each in engines
    ]
    return Report(
        name="jetstream",
        sheets=[_sheet(count, rounds)],
        floors=floors,
        notes=[
            f"{count:,} flight events; ours are in an archive that was written directly "
            f"(`ArchiveWriter`), {number(kept[0] / 1e6)} MB; 1,000 clients with distinct XPath "
            "queries of two bounds in each of two dimensions, each for 1/1,000 of the events, "
            "come back to a node, warm",
            f"nats-server {version}: JetStream with a file store, all default but "
            f"`write_deadline`, {number(kept[1] / 1e6)} MB by its own account; the same "
            "documents, each published to one of 100 subjects in turn; 100 connections, each makes "
            "a consumer of one subject that pushes, acknowledges nothing and controls the flow; "
            "readers count messages by how documents end, and read no header",
            "s: from the first wish (sessions and connections are there) to the last event at the "
            "last client; ours and its turns alternate; floors are for medians",
            "jobs: of our replay process, for one round: " + _told(jobs),
            *([f"without Spark: {missing}"] if missing else []),
        ],
        figures={
            "events": count,
            "rounds": [{**attrs.asdict(each), "ratio": each.ratio} for each in rounds],
            "ratios": ratios,
            "version": version,
            "bytes": {"archive": kept[0], "jetstream": kept[1]},
            "missing": missing,
        },
        draw=lambda figure: _draw(rounds, figure),
    )


def _told(jobs: dict[str, float]) -> str:
    return ", ".join(f"{engine} {number(count)}" for engine, count in jobs.items())


def _sheet(count: int, rounds: Sequence[Round]) -> Sheet:
    return Sheet(
        f"{count:,} events kept, and delivered once each: to 1,000 clients, to 100 consumers",
        [
            *("engine", "round", "ours, s", "first, s", "events/s", "jobs", "clients' CPU s"),
            *("JetStream, s", "first, s", "events/s", "server CPU s", "readers' CPU s"),
            "JetStream = 1",
        ],
        [
            [
                *(each.engine, str(each.number), f"{each.ours:.2f}", f"{each.ours_first:.2f}"),
                *(number(count / each.ours), str(each.jobs), f"{each.ours_cpu:.2f}"),
                *(f"{each.theirs:.2f}", f"{each.theirs_first:.3f}", number(count / each.theirs)),
                *(f"{each.server_cpu:.2f}", f"{each.theirs_cpu:.2f}", f"{each.ratio:.2f}"),
            ]
            for each in rounds
        ],
    )


def _draw(rounds: Sequence[Round], figure: Any) -> None:
    axes = figure.subplots()
    engines = list(dict.fromkeys(each.engine for each in rounds))
    times = [
        statistics.median(each.ours for each in rounds if each.engine == engine)
        for engine in engines
    ]
    theirs = statistics.median(each.theirs for each in rounds)
    bars = axes.bar([*engines, "JetStream"], [*times, theirs])
    axes.bar_label(bars, fmt="%.1f")
    axes.set_ylabel("seconds until all have all")
