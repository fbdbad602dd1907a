"""`xmlbroker node`: prepare a node's data, while the node is down, for its next start."""

from __future__ import annotations

from pathlib import Path

import click

from broker.cli.failure import Failure


@click.group(no_args_is_help=True)
def command() -> None:
    """Prepare a node's data, while the node is down, for its next start."""


@command.command()
@click.argument("data", type=click.Path(path_type=Path, file_okay=False))
def restored(data: Path) -> None:
    """Mark DATA, the folder `node.data` of a node, as restored from an older copy.

    Events that the node logged after the copy was made may be known to nobody. From the next start
    each subscription that returns is told a gap of unknown size. Other nodes, replicas and the
    archive still give back what they have.
    """
    from broker.log.commit import Retention
    from broker.log.histories import Histories
    from broker.log.log_file import LogFile

    folder = data / "log"
    if not (folder / "data.mdb").exists():
        raise Failure(f"{data} holds no event log: give the folder that node.data names")
    log = LogFile(folder, Retention())
    try:
        losses = log.chain.losses
        # A log that was marked before has recorded the loss when it was opened.
        if not losses or losses[-1].after[0] != log.bounds.epoch:
            log.change_histories(Histories.mark_restored)
    finally:
        log.close()
    click.echo(f"{data} is marked: the next start tells a gap to every subscription that returns")
