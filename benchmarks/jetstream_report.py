"""Report of the benchmark `jetstream`."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.report import Floor, Report, Sheet, format_number

#: Bound: time of xmlbroker in times of JetStream.
MAX_RATIO: Final = 2.0


@attrs.frozen
class Turn:
    """Times begin at the first consumer's request."""

    seconds: float
    """Until the last message of all."""
    first: float
    """Until the first message."""
    server_cpu: float
    """Processor seconds."""
    readers_cpu: float
    """Processor seconds."""


@attrs.frozen
class Round:
    """A run of the clients, then of JetStream's consumers. Times begin at the first client's
    request."""

    engine: str
    number: int
    ours: float
    """Until the last event of all."""
    first: float
    """Until the first event."""
    jobs: int
    cpu: float
    """Processor seconds of the clients' process."""
    documents: Turn
    payloads: Turn

    @property
    def ratios(self) -> dict[str, float]:
        """Time of xmlbroker in times of JetStream."""
        turns = {"documents": self.documents, "payloads": self.payloads}
        return {name: self.ours / turn.seconds for name, turn in turns.items()}


def report(
    count: int,
    rounds: Sequence[Round],
    version: str,
    kept: Mapping[str, int],
    missing: str = "",
) -> Report:
    """`kept`: bytes of the archive, and of the streams."""
    engines = list(dict.fromkeys(each.engine for each in rounds))
    ratios = {
        (engine, what): statistics.median(r.ratios[what] for r in rounds if r.engine == engine)
        for engine in engines
        for what in ("documents", "payloads")
    }
    jobs = {
        engine: statistics.median(each.jobs for each in rounds if each.engine == engine)
        for engine in engines
    }
    floors = [
        Floor(f"{engine}: JetStream's time with {what}", value, MAX_RATIO, "times", at_least=False)
        for (engine, what), value in ratios.items()
    ]
    sizes = ", ".join(f"{name} {format_number(size / 1e6)} MB" for name, size in kept.items())
    return Report(
        name="jetstream",
        sheets=[_ours(count, rounds), _theirs(count, rounds)],
        floors=floors,
        notes=[
            f"{count:,} flight events; those of xmlbroker are in an archive written directly "
            "(`ArchiveWriter`); 1,000 clients with distinct XPath "
            "queries of two bounds in each of two dimensions, each for 1/1,000 of the events, "
            "come back to a node, warm",
            f"nats-server {version}: JetStream with a file store, all default but "
            "`write_deadline`; *documents* are the same events, about 1 kB; *payloads* their 262 "
            "bytes without an envelope; each published to one of 100 subjects in turn; 100 "
            "connections, each makes "
            "a consumer of one subject that pushes, acknowledges nothing and controls the flow; "
            "readers count messages by how they end, and read no header",
            f"on disk, by JetStream's own account there: {sizes}",
            "s: from the first wish (sessions and connections are there) to the last event at the "
            "last client; runs of xmlbroker and JetStream alternate; floors are for medians",
            "jobs: of our replay process, for one round: " + _told(jobs),
            *([f"without Spark: {missing}"] if missing else []),
        ],
        figures={
            "events": count,
            "rounds": [{**attrs.asdict(each), "ratios": each.ratios} for each in rounds],
            "ratios": {f"{engine}, {what}": value for (engine, what), value in ratios.items()},
            "version": version,
            "bytes": dict(kept),
            "missing": missing,
        },
        draw=lambda figure: _draw(rounds, figure),
    )


def _told(jobs: dict[str, float]) -> str:
    return ", ".join(f"{engine} {format_number(count)}" for engine, count in jobs.items())


def _ours(count: int, rounds: Sequence[Round]) -> Sheet:
    return Sheet(
        f"{count:,} events kept, and delivered once each: to 1,000 clients",
        [
            *("engine", "round", "s", "first, s", "events/s", "jobs", "clients' CPU s"),
            *("documents = 1", "payloads = 1"),
        ],
        [
            [
                *(each.engine, str(each.number), f"{each.ours:.2f}", f"{each.first:.2f}"),
                *(format_number(count / each.ours), str(each.jobs), f"{each.cpu:.2f}"),
                *(f"{ratio:.2f}" for ratio in each.ratios.values()),
            ]
            for each in rounds
        ],
    )


def _theirs(count: int, rounds: Sequence[Round]) -> Sheet:
    return Sheet(
        f"the same {count:,} by JetStream: to 100 consumers",
        ["beside", "round", "keeps", "s", "first, s", "events/s", "server CPU s", "readers' CPU s"],
        [
            [
                *(each.engine, str(each.number), name, f"{turn.seconds:.2f}", f"{turn.first:.3f}"),
                format_number(count / turn.seconds),
                *(f"{turn.server_cpu:.2f}", f"{turn.readers_cpu:.2f}"),
            ]
            for each in rounds
            for name, turn in (("documents", each.documents), ("payloads", each.payloads))
        ],
    )


def _draw(rounds: Sequence[Round], figure: Any) -> None:
    axes = figure.subplots()
    engines = list(dict.fromkeys(each.engine for each in rounds))
    times = {
        engine: statistics.median(each.ours for each in rounds if each.engine == engine)
        for engine in engines
    }
    times["JetStream, documents"] = statistics.median(each.documents.seconds for each in rounds)
    times["JetStream, payloads"] = statistics.median(each.payloads.seconds for each in rounds)
    bars = axes.bar(list(times), list(times.values()))
    axes.bar_label(bars, fmt="%.1f")
    axes.set_ylabel("seconds until all have all")
