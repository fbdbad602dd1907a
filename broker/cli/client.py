"""`xmlbroker client`: state that a node stores for a client."""

from __future__ import annotations

import click

from broker.cli.node_access import NodeAccess, node_options
from broker.cli.terminal import echo, is_terminal, json_line


@click.group(no_args_is_help=True)
def command() -> None:
    """Reset the state that a node stores for a client. It needs the right to administer."""


@command.command()
@click.argument("client", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def reset(access: NodeAccess, client: str, as_json: bool) -> None:
    """Delete the incarnation and the owner that the node stores for the client ID, and end its
    session. The next session may be of another account, and have another key.

    A process with a wrong clock may have used a number that later processes never reach. A client
    may have lost its key. Other nodes have their own records: reset them there too, if the client
    connects to them or has subscriptions there.
    """
    answer = access.ask("client-reset", client=client)
    if as_json or not is_terminal():
        echo(json_line(answer))
        return
    incarnation = answer["incarnation"]
    if incarnation:
        echo(f"the incarnation {incarnation} of {client} is deleted")
    else:
        echo(f"the node has no incarnation of {client}")
    # Earlier nodes do not name it.
    if answer.get("owner_deleted"):
        echo(f"the owner of {client} is deleted")
    if answer["session_ended"]:
        echo(f"the session of {client} has ended")
