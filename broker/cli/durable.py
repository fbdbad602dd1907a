"""`xmlbroker durable`: the durable subscriptions of a running node, and changes to them."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

import click

from broker.cli.event_format import clock_time
from broker.cli.failure import Failure
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.overview import durable_table
from broker.cli.starting_point import parse_end
from broker.cli.terminal import echo, is_terminal, json_line, make_console, one_line, print_note

_client = click.option(
    "--client",
    default="",
    metavar="ID",
    help="The subscription's client.  [default: your own ClientId]",
)
_as_json = click.option(
    "--json", "as_json", is_flag=True, help="Lines of JSON.  [default in a pipe]"
)


@click.group(no_args_is_help=True)
def command() -> None:
    """Show, pause, reset and delete durable subscriptions.

    A command logs in as --client-id, which ends another session of that ClientId. Use a separate
    id, and name the subscription's client with --client.
    """


@command.command("list")
@click.option("--client", default="", metavar="ID", help="List only this client's subscriptions.")
@_as_json
@node_options
def list_(access: NodeAccess, client: str, as_json: bool) -> None:
    """List the durable subscriptions at the node that the account may see, with their lags."""
    arguments = {"client": client} if client else {}
    answer = access.ask("durable-list", **arguments)
    rows = answer["subscriptions"]
    if as_json or not is_terminal():
        for row in rows:
            echo(json_line(row))
    else:
        make_console().print(durable_table(rows))
    if answer["left_out"]:
        print_note(f"{answer['left_out']:,} more are not listed: name a --client")


@command.command()
@click.argument("name")
@_client
@_as_json
@node_options
def show(access: NodeAccess, name: str, client: str, as_json: bool) -> None:
    """Show one durable subscription: query, position, lag, and its session."""
    _print_row(_ask(access, "show", name, client), as_json)


@command.command()
@click.argument("name")
@_client
@_as_json
@node_options
def pause(access: NodeAccess, name: str, client: str, as_json: bool) -> None:
    """Stop delivery. The position stays, and the client may stay connected.

    The subscription can not move to another node before it is resumed.
    """
    _print_row(_ask(access, "pause", name, client), as_json)


@command.command()
@click.argument("name")
@_client
@_as_json
@node_options
def resume(access: NodeAccess, name: str, client: str, as_json: bool) -> None:
    """Resume delivery at the position where it was paused."""
    _print_row(_ask(access, "resume", name, client), as_json)


@command.command()
@click.argument("name")
@click.option(
    "--to",
    required=True,
    metavar="WHERE",
    help="start or end of the node's log, a time, a time ago (1h30m), or a position.",
)
@_client
@_as_json
@node_options
def reset(access: NodeAccess, name: str, to: str, client: str, as_json: bool) -> None:
    """Move the position, and print how many places are skipped or repeated.

    The subscription must not be in use. A client with a state folder continues at its own position
    if that is further: to go back, remove its .positions file, too.
    """
    row = _ask(access, "reset", name, client, to=_reset_target(to))
    _print_row(row, as_json)
    answer = row["reset"]
    if answer["skipped"]:
        print_note(f"{answer['skipped']:,} places are skipped: their events will not be delivered")
    if answer["again"]:
        print_note(
            f"{answer['again']:,} places come again, unless the client's state folder is further"
        )


@command.command()
@click.argument("name")
@_client
@_as_json
@node_options
def delete(access: NodeAccess, name: str, client: str, as_json: bool) -> None:
    """Delete a durable subscription at all nodes of the network; its session is ended.

    Another node keeps one of a client with a key: delete it there. The exit status is 1 if a node
    keeps it, or did not answer: it may still have the subscription.
    """
    answer = _ask(access, "delete", name, client)
    if as_json or not is_terminal():
        echo(json_line(answer))
    else:
        at = [*(["this node"] if answer["here"] else []), *answer["elsewhere"]]
        echo(one_line(f"deleted at {', '.join(at) or 'no node'}"))
    # Earlier nodes do not name it.
    if kept := answer.get("kept"):
        print_note(f"kept at {', '.join(kept)}, since the client has a key: delete it there")
    if answer["silent"]:
        print_note(
            f"no answer from {', '.join(answer['silent'])}: delete it again when they are back"
        )
    if kept or answer["silent"]:
        sys.exit(1)


def _ask(access: NodeAccess, what: str, name: str, client: str, **arguments: str) -> Any:
    if not (client or access.client_id or access.account):
        raise click.UsageError("give --client ID: no account names the subscription's client")
    named = {"name": name, **({"client": client} if client else {})}
    return access.ask(f"durable-{what}", **named, **arguments)


def _reset_target(to: str) -> str:
    if to in ("start", "end"):
        return to
    try:
        return str(parse_end(to, int(time.time() * 1000)))
    except ValueError as error:
        raise Failure(f"{to!r}: {error}, start or end") from None


def _print_row(row: Mapping[str, Any], as_json: bool) -> None:
    if as_json or not is_terminal():
        echo(json_line(row))
        return
    make_console().print(durable_table([row]))
    for key in ("pattern", "query", "position", "moved_to", "former"):
        if row.get(key):
            echo(one_line(f"{key.replace('_', ' ')}: {row[key]}"))
    echo(one_line(f"last used: {clock_time(row['used_ms'])}"))
    for key, value in (row.get("session") or {}).items():
        echo(one_line(f"{key}: {value}"))
