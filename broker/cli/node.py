"""`xmlbroker node`: prepare the data of a stopped node for its next start."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.failure import Failure
from broker.cli.terminal import echo


@click.group(no_args_is_help=True)
def command() -> None:
    """Prepare the data of a stopped node for its next start."""


@command.command()
@click.argument("data", type=click.Path(path_type=Path, file_okay=False))
def restored(data: Path) -> None:
    """Mark DATA, the folder `node.data` of a node, as restored from an older copy.

    Events that the node logged after the copy may be lost. From the next start each returning
    subscription receives a gap of unknown size. Other nodes, replicas and the archive still return
    the events that they have.
    """
    from broker.log.commit import Retention
    from broker.log.history import HistoryTable
    from broker.log.log_file import LogFile

    folder = data / "log"
    if not (folder / "data.mdb").exists():
        raise Failure(f"{data} holds no event log: give the folder of the setting node.data")
    log = LogFile(folder, Retention())
    try:
        losses = log.history_chain.losses
        # Opening a marked log has recorded the loss.
        if not losses or losses[-1].after[0] != log.bounds.epoch:
            log.change_history(HistoryTable.mark_restored)
    finally:
        log.close()
    echo(f"{data} is marked: from the next start each returning subscription receives a gap")
