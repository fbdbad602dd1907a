"""Tables of `xmlbroker archive` on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs

from broker.cli.terminal import echo, json_line, make_console, one_line

if TYPE_CHECKING:
    from broker.archive.archive_state import ArchiveState
    from broker.archive.backup import BackupResult
    from broker.archive.compaction import CompactionResult, Merge
    from broker.archive.expiry import ExpiryResult
    from broker.archive.manifest_entry import ArchivedFile
    from broker.archive.verification import VerificationResult

Printer = Callable[[], None]


def files_printer(state: ArchiveState, *, files: bool, human_readable: bool) -> Printer:
    rows = [_file_row(each) for each in _sorted_files(state)] if files else _partition_rows(state)
    covered: list[dict[str, Any]] = [
        {"covered": origin, "after": list(after), "upto": list(upto)}
        for origin, intervals in sorted(state.covered.items())
        for after, upto in intervals
    ]
    damaged: list[dict[str, Any]] = [
        *({"damaged": path, "reason": why.reason} for path, why in state.aside.items()),
        *({"damaged": path, "reason": reason} for path, reason in state.problems.items()),
    ]
    if not human_readable:
        return lambda: _print_json_lines([*rows, *covered, *damaged])

    def print_report() -> None:
        _print_table("partition" if not files else "file", rows)
        for each in covered:
            (first, after), (last, upto) = each["after"], each["upto"]
            echo(f"{each['covered']}: complete after {first}:{after} up to {last}:{upto}")
        for each in damaged:
            echo(one_line(f"damaged: {each['damaged']}: {each['reason']}"))

    return print_report


def verification_printer(done: VerificationResult, *, human_readable: bool) -> Printer:
    faults = [attrs.asdict(fault) for fault in done.faults]
    total = {"files": done.files, "rows": done.rows, "bytes": done.bytes, "dtds": done.dtds}
    if not human_readable:
        return lambda: _print_json_lines([*faults, {**total, "faults": len(faults)}])

    def print_report() -> None:
        for fault in done.faults:
            echo(one_line(f"{fault.kind}: {fault.name}: {fault.reason}"))
        summary = f"{done.files:,} files with {done.rows:,} events ({_format_size(done.bytes)})"
        echo(f"{summary} and {done.dtds:,} DTDs verified: {len(faults) or 'no'} faults")

    return print_report


def merge_plan_printer(merges: Sequence[Merge], *, human_readable: bool) -> Printer:
    rows = [
        {"partition": m.partition, "hour": m.hour, "files": len(m.files), "bytes": m.bytes}
        for m in merges
    ]
    return (
        (lambda: _print_table("partition", rows))
        if human_readable
        else lambda: _print_json_lines(rows)
    )


def compaction_printer(done: CompactionResult, *, human_readable: bool) -> Printer:
    if not human_readable:
        return lambda: _print_json_lines([attrs.asdict(done)])

    def print_report() -> None:
        echo(
            f"{done.files_before:,} files ({_format_size(done.bytes_before)}) became "
            f"{done.files_after:,} ({_format_size(done.bytes_after)}); "
            f"{done.duplicates:,} duplicate events dropped"
        )
        for path in done.damaged:
            echo(one_line(f"damaged and set aside: {path}"))

    return print_report


def copy_printer(done: BackupResult, *, human_readable: bool) -> Printer:
    if not human_readable:
        return lambda: _print_json_lines([attrs.asdict(done)])

    def print_report() -> None:
        echo(
            f"{done.files:,} files ({_format_size(done.bytes)}), {done.dtds:,} DTDs and "
            f"{done.pages:,} pages copied; {done.there:,} files were there already"
        )
        for path in done.damaged:
            echo(one_line(f"damaged or missing, and not copied: {path}"))

    return print_report


def expiry_printer(expired: ExpiryResult, *, dry_run: bool, human_readable: bool) -> Printer:
    if not human_readable:
        return lambda: _print_json_lines([{**attrs.asdict(expired), "dry_run": dry_run}])

    def print_report() -> None:
        would = "would be " if dry_run else ""
        echo(
            f"{len(expired.removed):,} files "
            f"({_format_size(expired.removed_bytes)}) {would}removed; "
            f"{len(expired.deleted):,} objects "
            f"({_format_size(expired.deleted_bytes)}) {would}deleted, "
            f"{expired.orphans:,} of them in no manifest"
        )
        if expired.held:
            echo(f"hours from {expired.held} on stay: a durable subscription needs them")
        if expired.kept_orphans:
            echo(
                f"{expired.kept_orphans:,} files in no manifest stay, since a manifest is damaged: "
                "run `xmlbroker archive verify`"
            )

    return print_report


@contextmanager
def progress_bar(what: str, *, bytes_: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a function (done, total) for a bar, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, of: None
        return
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn

    column = DownloadColumn() if bytes_ else MofNCompleteColumn()
    with Progress(
        TextColumn(what), BarColumn(), column, console=make_console(err=True), transient=True
    ) as line:
        task = line.add_task(what)
        yield lambda done, of: line.update(task, completed=done, total=of)


def _sorted_files(state: ArchiveState) -> list[ArchivedFile]:
    return sorted(state.files.values(), key=lambda file: (file.partition, file.hour, file.path))


def _file_row(file: ArchivedFile) -> dict[str, Any]:
    return {"file": file.path, "events": file.rows, "bytes": file.bytes, "hour": file.hour}


def _partition_rows(state: ArchiveState) -> list[dict[str, Any]]:
    groups: dict[str, list[ArchivedFile]] = defaultdict(list)
    for file in _sorted_files(state):
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


def _print_json_lines(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        echo(json_line(row))


def _print_table(first: str, rows: Sequence[dict[str, Any]]) -> None:
    from rich import box
    from rich.table import Table

    names = list(rows[0]) if rows else [first]
    table = Table(*names, box=box.SIMPLE_HEAD)
    for row in rows:
        table.add_row(*(_format_cell(name, value) for name, value in row.items()))
    for column in table.columns[1:]:
        column.justify = "right"
    make_console().print(table)


def _format_cell(name: str, value: Any) -> str:
    if name == "bytes":
        return _format_size(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _format_size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"
