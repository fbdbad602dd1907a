"""Report of the benchmark `archive`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from benchmarks.harness.report import Floor, Report, Sheet, format_number
from broker.archive.parquet import COMPRESSION_LEVEL

#: Bound: processor microseconds for a flight event.
MAX_MICROSECONDS: Final = 6.0
#: Bound: seconds to open an archive of a million events and to list its content.
MAX_SECONDS_TO_OPEN: Final = 1.0
#: By the archiver of a node without neighbours.
SIGNED: Final = "signed"
#: All events for one subscription.
RECOVERY: Final = "recover all"


@attrs.define
class Measured:
    """One workload, archived at one level of compression."""

    workload: str
    level: int
    events: int = 0
    raw: int = 0
    """Of the documents."""
    archived: int = 0
    """Of the files."""
    gzip: int = 0
    """Bytes of the concatenated documents, by gzip."""
    cpu: float = 0.0
    """Processor seconds in `ArchiveWriter.write`, and for signing."""
    seconds: float = 0.0
    """Wall-clock seconds in it."""

    @property
    def micros(self) -> float:
        """Microseconds of processor time for one event."""
        return 1e6 * self.cpu / self.events


@attrs.frozen
class Cold:
    workload: str
    what: str
    files: int
    events: int
    bytes: int
    seconds: float
    cpu: float
    """Processor seconds."""


def report(measured: Sequence[Measured], cold: Sequence[Cold], missing: list[str]) -> Report:
    floors = [
        Floor("flights, an event", each.micros, MAX_MICROSECONDS, "us", at_least=False)
        for each in measured
        if each.workload == "flights" and each.level == COMPRESSION_LEVEL
    ]
    floors += [
        Floor(f"{each.workload}, size against gzip", each.archived / each.gzip, 2.0, "", False)
        for each in measured
        if each.level == COMPRESSION_LEVEL and not each.workload.endswith(SIGNED)
    ]
    floors += [
        Floor(f"{each.workload}, {each.what}", each.seconds, MAX_SECONDS_TO_OPEN, "s", False)
        for each in cold
        if each.what.startswith("open")
    ]
    return Report(
        name="archive",
        sheets=[_written(measured), _done(cold)],
        floors=floors,
        notes=[
            "an event is a log record, with packed header and document; flushes of 10,000 "
            "events go to one partition, each of them synced, with a manifest; us/event is the "
            "processor's time in `ArchiveWriter.write`, with the garbage collector as in the "
            "archiver's process; other time is waiting for the disk",
            "gzip -6 of the same documents one behind the other, in one stream; the archive has "
            "headers, places and hashes in addition",
            "VOEvents are real packets repeated in envelopes of their own; neither way looks back "
            "as far as the same packet",
            f"{SIGNED}: events get their proofs first, as in the archiver of a node without "
            "neighbours, in the same time",
            f"{RECOVERY}: a replay of all events for one subscription, from the request to checked "
            "events, as in recovery",
            "opening, reading and merging: files that the system has cached, one process, new",
            *(f"left out: {reason}" for reason in missing),
        ],
        figures={
            "measured": [{**attrs.asdict(each), "micros": each.micros} for each in measured],
            "cold": [attrs.asdict(each) for each in cold],
        },
        draw=lambda figure: _draw(measured, figure),
    )


def _written(measured: Sequence[Measured]) -> Sheet:
    return Sheet(
        "Events archived",
        [
            *("workload", "zstd", "events", "bytes/event", "us/event", "events/s"),
            *("raw, MB", "archive, MB", "of raw", "gzip, MB", "of gzip"),
        ],
        [
            [
                *(each.workload, str(each.level), format_number(each.events)),
                *(format_number(each.raw / each.events), f"{each.micros:.2f}"),
                *(format_number(each.events / each.seconds), format_number(each.raw / 1e6)),
                *(format_number(each.archived / 1e6), f"{100 * each.archived / each.raw:.1f}%"),
                *(format_number(each.gzip / 1e6), f"{100 * each.archived / each.gzip:.0f}%"),
            ]
            for each in measured
        ],
    )


def _done(cold: Sequence[Cold]) -> Sheet:
    return Sheet(
        "Operations on the whole archive after opening it",
        ["workload", "what", "files", "MB", "seconds", "us/event", "CPU us/event"],
        [
            [
                *(
                    each.workload,
                    each.what,
                    format_number(each.files),
                    format_number(each.bytes / 1e6),
                ),
                *(format_number(each.seconds), format_number(1e6 * each.seconds / each.events)),
                format_number(1e6 * each.cpu / each.events),
            ]
            for each in cold
        ],
    )


def _draw(measured: Sequence[Measured], figure: Any) -> None:
    shown = [
        each
        for each in measured
        if each.level == COMPRESSION_LEVEL and not each.workload.endswith(SIGNED)
    ]
    for column, each in enumerate(shown, 1):
        axes = figure.add_subplot(1, len(shown), column)
        sizes = [size / each.events for size in (each.raw, each.gzip, each.archived)]
        bars = axes.bar(["raw XML", "gzip -6", "archive"], sizes)
        axes.bar_label(bars, [format_number(size) for size in sizes])
        axes.set_title(each.workload)
        axes.set_ylabel("bytes an event")
