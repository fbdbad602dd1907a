"""`xmlbroker log`: verification and repair of a node's event log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from broker.cli.archive_report import progress_bar
from broker.cli.failure import Failure
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.terminal import echo, is_terminal, json_line, one_line, print_note
from broker.private_files import PRIVATE_UMASK, use_umask

if TYPE_CHECKING:
    from broker.log.log_verification import VerificationResult


@click.group(no_args_is_help=True)
def command() -> None:
    """Verify and repair the event log of a node, and give up the logs of others.

    The log is named by the node's configuration, or by its data folder.
    """


@command.command()
@click.argument("where", metavar="NODE.toml|FOLDER", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="JSON lines, on a terminal too.")
@click.option("--repair", is_flag=True, help="Save all readable data. The node must be down.")
def verify(where: Path, as_json: bool, repair: bool) -> None:
    """Read the whole log, and check its checksums and the signatures of its events.

    Each damage is printed with its kind, origin, places and serials. A log in use by a node is read
    meanwhile. The exit status is 1 if damage remains. When a node reads damaged events it asks
    other nodes for them, and reports a gap to its subscribers if none has them.
    """
    use_umask(PRIVATE_UMASK)
    folder = _log_folder(where)
    with _claim_log(folder) as is_ours:
        if not is_ours:
            if repair:
                raise Failure(f"{folder} is in use by a node: stop it before a repair")
            print_note(f"{folder} is in use by a node: it is read while the node runs")
        if repair:
            _repair(folder, as_json=as_json)
        done = _verify(folder, is_ours=is_ours)
    _print_findings(done, as_json=as_json)
    if done.findings:
        sys.exit(1)


@command.command("give-up")
@click.argument("origin")
@click.option("--undo", is_flag=True, help="Wait for the log again.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def give_up(access: NodeAccess, origin: str, undo: bool, as_json: bool) -> None:
    """Do not wait for the log ORIGIN any more: its disk is lost.

    Subscriptions at the node get a gap for what no other log and no archive has. In the cluster of
    that log the node publishes its vote. Once a majority of the cluster's nodes has voted, no node
    waits. It needs the right to administer.
    """
    answer = access.ask("log-give-up", origin=origin, undo="yes" if undo else "")
    if as_json or not is_terminal():
        echo(json_line(answer))
        return
    what = "is given up" if answer["given_up"] else "is awaited"
    by_others = ", and a majority of its cluster has given it up" if answer["certified"] else ""
    echo(one_line(f"{answer['origin']} {what}{by_others}"))


def _log_folder(where: Path) -> Path:
    from broker.config import load

    data = load(where).node.data if where.suffix == ".toml" else where
    found = next((each for each in (data, data / "log") if (each / "data.mdb").exists()), None)
    if found is None:
        raise Failure(f"{data} holds no event log")
    return found


@contextmanager
def _claim_log(folder: Path) -> Iterator[bool]:
    """Yield False if a node has claimed the log."""
    from broker.errors import LogUnavailable
    from broker.log.folder_lock import lock_folder

    try:
        claim = lock_folder(folder)
    except LogUnavailable:
        yield False
        return
    try:
        yield True
    finally:
        os.close(claim)


def _verify(folder: Path, *, is_ours: bool) -> VerificationResult:
    from broker.log.external_reader import pin_commit
    from broker.log.log_verification import Verification

    with progress_bar("verified", bytes_=True) as progress:
        if is_ours:
            verification = Verification(folder)
            try:
                return verification.verify(verification.rank_metas()[0], progress)
            finally:
                verification.close()
        with pin_commit(folder) as (verification, meta):
            return verification.verify(meta, progress)


def _repair(folder: Path, *, as_json: bool) -> None:
    """Rewrite the file if its pages are damaged."""
    from broker.log.commit import Retention
    from broker.log.file_rebuild import rebuild_file
    from broker.log.log_file import LogFile

    before = _verify(folder, is_ours=True)
    _print_findings(before, as_json=as_json)
    if any(each.kind == "page" for each in before.findings):
        print_note(f"all readable data was saved; the damaged file is {rebuild_file(folder)}")
    # Opening the log repairs the rest.
    LogFile(folder, Retention()).close()
    print_note("repaired; remaining damage:")


def _print_findings(done: VerificationResult, *, as_json: bool) -> None:
    total = {key: value for key, value in attrs.asdict(done).items() if key != "findings"}
    if as_json or not is_terminal():
        for each in done.findings:
            echo(json_line(attrs.asdict(each)))
        echo(json_line({**total, "findings": len(done.findings)}))
        return
    for each in done.findings:
        where = f", serials {each.serials[0]} to {each.serials[1]}" if each.serials[0] else ""
        echo(one_line(f"{each.kind}: {each.text}{where}"))
    echo(
        f"{done.events} events in {done.chunks} chunks, {done.values} values, {done.bytes} bytes: "
        + (f"{len(done.findings)} damaged" if done.findings else "no damage")
    )
    signatures = done.signatures
    if signatures.unsigned:
        echo(f"{signatures.signed} events are signed, {signatures.unsigned} are not")
    if done.unchecked:
        echo(f"{done.unchecked} chunks of an older version have no checksums")
