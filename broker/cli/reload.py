"""`xmlbroker reload`: let a running node read its configuration again."""

from __future__ import annotations

import click

from broker.cli.node_access import NodeAccess, node_options
from broker.cli.terminal import echo, is_terminal, json_line, one_line


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def command(access: NodeAccess, as_json: bool) -> None:
    """Apply changed accounts, limits, certificates and log levels to a running node.

    It needs the right to administer. A file with an error changes nothing. Keys that need a
    restart are listed. SIGHUP to the node does the same.
    """
    print_reload(access, as_json=as_json)


def print_reload(access: NodeAccess, *, as_json: bool) -> None:
    answer = access.ask("reload")
    if as_json or not is_terminal():
        echo(json_line(answer))
        return
    applied, restart = answer["applied"], answer["restart"]
    echo(one_line(f"applied: {', '.join(applied)}" if applied else "nothing to apply has changed"))
    if restart:
        what = "changed, but applied only by a restart of the node"
        echo(one_line(f"{what}: {', '.join(restart)}"))
    for key in ("sessions_ended", "subscriptions_ended"):
        if answer[key]:
            echo(one_line(f"{key.replace('_', ' ')}: {answer[key]}"))
