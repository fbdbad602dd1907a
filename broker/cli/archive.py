"""`xmlbroker archive`: content, verification and maintenance of an archive."""

from __future__ import annotations

import sys
from typing import Any

import click

from broker.cli.archive_access import duration_type, open_archive, size_type
from broker.cli.archive_report import (
    compaction_printer,
    copy_printer,
    expiry_printer,
    files_printer,
    merge_plan_printer,
    progress_bar,
    verification_printer,
)
from broker.cli.terminal import is_terminal, print_note

_where = click.argument("where", metavar="URI|NODE.toml")
_json = click.option("--json", "as_json", is_flag=True, help="JSON lines, on a terminal too.")
_dry = click.option("--dry-run", is_flag=True, help="Print the plan; change nothing.")


@click.group(no_args_is_help=True)
def command() -> None:
    """List, verify, compact, expire and copy the archive of a network.

    It is named by its URI (a folder, file:///..., s3://...), or by the configuration of a node that
    writes to it. Nodes may write to it meanwhile.
    """


@command.command("list")
@_where
@_json
@click.option("--files", is_flag=True, help="List files instead of partitions.")
def list_(where: str, as_json: bool, files: bool) -> None:
    """List the events, bytes and hours of each partition, and the covered ranges."""
    archive = open_archive(where)
    state = archive.state()
    files_printer(state, files=files, human_readable=_human_readable(as_json))()
    if state.aside or state.problems:
        sys.exit(1)


@command.command()
@_where
@_json
@click.option("--keep", is_flag=True, help="Only list damaged files; do not set them aside.")
def verify(where: str, as_json: bool, keep: bool) -> None:
    """Read every file, and compare it with its hash and its manifest.

    Damaged files are set aside: readers skip them, and the rest stays usable. The exit status is 1
    if anything is wrong.
    """
    from broker.archive.verification import Verification

    archive = open_archive(where)
    with progress_bar("verified", bytes_=True) as progress:
        done = Verification(archive).run(progress, set_aside=not keep)
    verification_printer(done, human_readable=_human_readable(as_json))()
    if done.faults:
        sys.exit(1)


@command.command()
@_where
@_json
@_dry
@click.option(
    "--target",
    type=size_type,
    default="64MiB",
    show_default=True,
    help="Target size of a file; files of at least half of it are left alone.",
)
def compact(where: str, as_json: bool, dry_run: bool, target: int) -> None:
    """Merge small files of one partition and hour into large ones.

    The exit status is 1 if a damaged file was found.
    """
    from broker.archive.archive import new_temporary_writer_name
    from broker.archive.compaction import Compaction, CompactionRules
    from broker.archive.manifest_journal import ManifestWriter

    archive = open_archive(where)
    ledger = ManifestWriter(archive.manifests, new_temporary_writer_name(), archive.wall_clock)
    compaction = Compaction(archive, ledger, CompactionRules(target_bytes=target))
    if dry_run:
        merge_plan_printer(compaction.plan(), human_readable=_human_readable(as_json))()
        return
    with progress_bar("merged", bytes_=True) as progress:
        done = compaction.run(progress)
    compaction_printer(done, human_readable=_human_readable(as_json))()
    if done.damaged:
        sys.exit(1)


@command.command("copy")
@_where
@click.argument("target", metavar="URI")
@_json
def copy_(where: str, target: str, as_json: bool) -> None:
    """Copy the archive, or add what is new since the last copy: a backup.

    The copy is an archive of its own. To restore it, copy it back, or let nodes write to it. The
    exit status is 1 if something is damaged or missing; the copy lacks it.
    """
    from broker.archive.archive import Archive
    from broker.archive.backup import Backup

    copying = Backup(open_archive(where), Archive.open(target))
    with progress_bar("copied", bytes_=True) as progress:
        done = copying.run(progress)
    copy_printer(done, human_readable=_human_readable(as_json))()
    if done.damaged:
        sys.exit(1)


@command.command()
@_where
@_json
@_dry
@click.option(
    "--age", type=duration_type, default="0", help="Remove hours older than this, such as 30d."
)
@click.option(
    "--size",
    type=size_type,
    default="0",
    help="Remove the oldest hours beyond this size, such as 1TB.",
)
@click.option(
    "--events",
    type=click.IntRange(0),
    default=0,
    help="Remove the oldest hours beyond this number of events; 0: no bound.",
)
@click.option(
    "--hard-age",
    type=duration_type,
    default="90d",
    show_default=True,
    help="Remove older hours even if a durable subscription needs them; 0: never.",
)
@click.option(
    "--grace",
    type=duration_type,
    default="1h",
    show_default=True,
    help="Delay before removed files are deleted.",
)
def expire(**options: Any) -> None:
    """Remove old hours, and delete files that no reader can be using.

    Without --age, --size and --events no hour is removed. Events that a durable subscription has
    not processed stay. The exit status is 1 if files stay that a damaged manifest may list.
    """
    _expire(**options)


def _expire(
    where: str,
    as_json: bool,
    dry_run: bool,
    age: int,
    size: int,
    events: int,
    hard_age: int,
    grace: int,
) -> None:
    from broker.archive.archive import new_temporary_writer_name
    from broker.archive.expiry import Expiry, ExpiryRules
    from broker.archive.manifest_journal import ManifestWriter
    from broker.archive.retention import Retention
    from broker.archiver.durable_needs import find_durable_needs

    archive = open_archive(where)
    rules = ExpiryRules(Retention(age, size, events, hard_age), grace_ms=grace)
    ledger = ManifestWriter(archive.manifests, new_temporary_writer_name(), archive.wall_clock)
    expiry = Expiry(archive, ledger, rules, find_durable_needs(archive, print_note))
    if dry_run:
        expired = expiry.plan()
    else:
        with progress_bar("deleted", bytes_=False) as progress:
            expired = expiry.run(progress)
    expiry_printer(expired, dry_run=dry_run, human_readable=_human_readable(as_json))()
    if expired.kept_orphans:
        sys.exit(1)


def _human_readable(as_json: bool) -> bool:
    return is_terminal() and not as_json
