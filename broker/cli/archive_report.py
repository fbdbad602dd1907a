"""What `xmlbroker archive` prints: tables for people, JSON lines for programs."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import click

from broker.cli.terminal import console, json_line, one_line

if TYPE_CHECKING:
    from broker.archive.compaction import Compacted, Merge
    from broker.archive.copying import Copied
    from broker.archive.expiry import Expired
    from broker.archive.listed import ArchivedFile
    from broker.archive.state import ArchiveState
    from broker.archive.verification import Verified

#: Prints something.
Printing = Callable[[], None]


def file_lines(state: ArchiveState, *, files: bool, for_people: bool) -> Printing:
    """What is there, by partition or file; what is covered; what is damaged."""
    rows = [_file(each) for each in _sorted(state)] if files else _partitions(state)
    covered: list[dict[str, Any]] = [
        {"covered": origin, "after": list(after), "upto": list(upto)}
        for origin, intervals in sorted(state.covered.items())
        for after, upto in intervals
    ]
    wrong: list[dict[str, Any]] = [
        *({"damaged": path, "reason": why.reason} for path, why in state.aside.items()),
        *({"damaged": path, "reason": reason} for path, reason in state.problems.items()),
    ]
    if not for_people:
        return lambda: _lines([*rows, *covered, *wrong])

    def printing() -> None:
        _table("partition" if not files else "file", rows)
        for each in covered:
            (first, after), (last, upto) = each["after"], each["upto"]
            click.echo(f"{each['covered']}: all from {first}:{after} on, up to {last}:{upto}")
        for each in wrong:
            click.echo(one_line(f"damaged: {each['damaged']}: {each['reason']}"))

    return printing


def verified_lines(done: Verified, *, for_people: bool) -> Printing:
    """What is wrong, and how much was looked at."""
    faults = [attrs.asdict(fault) for fault in done.faults]
    total = {"files": done.files, "rows": done.rows, "bytes": done.bytes, "dtds": done.dtds}
    if not for_people:
        return lambda: _lines([*faults, {**total, "faults": len(faults)}])

    def printing() -> None:
        for fault in done.faults:
            click.echo(one_line(f"{fault.kind}: {fault.name}: {fault.reason}"))
        told = f"{done.files:,} files with {done.rows:,} events ({_size(done.bytes)})"
        click.echo(f"{told} and {done.dtds:,} DTDs: {len(faults) or 'no'} faults")

    return printing


def merge_lines(merges: Sequence[Merge], *, for_people: bool) -> Printing:
    """What would be merged."""
    rows = [
        {"partition": m.partition, "hour": m.hour, "files": len(m.files), "bytes": m.bytes}
        for m in merges
    ]
    return (lambda: _table("partition", rows)) if for_people else lambda: _lines(rows)


def compacted_lines(done: Compacted, *, for_people: bool) -> Printing:
    """What was merged."""
    if not for_people:
        return lambda: _lines([attrs.asdict(done)])

    def printing() -> None:
        click.echo(
            f"{done.files_before:,} files ({_size(done.bytes_before)}) became "
            f"{done.files_after:,} ({_size(done.bytes_after)}); "
            f"{done.duplicates:,} events were there twice"
        )
        for path in done.damaged:
            click.echo(one_line(f"damaged and set aside: {path}"))

    return printing


def copied_lines(done: Copied, *, for_people: bool) -> Printing:
    """What a copy brought."""
    if not for_people:
        return lambda: _lines([attrs.asdict(done)])

    def printing() -> None:
        click.echo(
            f"{done.files:,} files ({_size(done.bytes)}), {done.dtds:,} DTDs and {done.pages:,} "
            f"pages copied; {done.there:,} files were there"
        )
        for path in done.damaged:
            click.echo(one_line(f"damaged or missing, and not copied: {path}"))

    return printing


def expired_lines(expired: Expired, *, dry_run: bool, for_people: bool) -> Printing:
    """What was, or would be, taken away and deleted."""
    if not for_people:
        return lambda: _lines([{**attrs.asdict(expired), "dry_run": dry_run}])

    def printing() -> None:
        would = "would be " if dry_run else ""
        click.echo(
            f"{len(expired.removed):,} files ({_size(expired.removed_bytes)}) {would}too old; "
            f"{len(expired.deleted):,} objects ({_size(expired.deleted_bytes)}) {would}deleted, "
            f"{expired.orphans:,} of them listed nowhere"
        )
        if expired.held:
            click.echo(f"{expired.held} and later stay: a durable subscription needs them")
        if expired.kept_orphans:
            click.echo(
                f"{expired.kept_orphans:,} files that no manifest lists stay, for one is damaged: "
                "see `xmlbroker archive verify`"
            )

    return printing


@contextmanager
def progress_of(what: str, *, bytes_: bool) -> Iterator[Callable[[int, int], None]]:
    """A line on stderr that moves, where that is a terminal; told what is done, of how much."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn

    column = DownloadColumn() if bytes_ else MofNCompleteColumn()
    with Progress(
        TextColumn(what), BarColumn(), column, console=console(err=True), transient=True
    ) as line:
        task = line.add_task(what)
        yield lambda done, of: line.update(task, completed=done, total=of)


def _sorted(state: ArchiveState) -> list[ArchivedFile]:
    return sorted(state.files.values(), key=lambda file: (file.partition, file.hour, file.path))


def _file(file: ArchivedFile) -> dict[str, Any]:
    return {"file": file.path, "events": file.rows, "bytes": file.bytes, "hour": file.hour}


def _partitions(state: ArchiveState) -> list[dict[str, Any]]:
    groups: dict[str, list[ArchivedFile]] = defaultdict(list)
    for file in _sorted(state):
        groups[file.partition].append(file)
    return [
        {
            "partition": partition,
            "files": len(files),
            "events": sum(file.rows for file in files),
            "bytes": sum(file.bytes for file in files),
            "from": files[0].hour,
            "to": files[-1].hour,
        }
        for partition, files in groups.items()
    ]


def _lines(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(json_line(row))


def _table(first: str, rows: Sequence[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table

    names = list(rows[0]) if rows else [first]
    table = Table(*names, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(_cell(name, value) for name, value in row.items()))
    for column in table.columns[1:]:
        column.justify = "right"
    console().print(table)


def _cell(name: str, value: Any) -> str:
    if name == "bytes":
        return _size(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"
