"""`xmlbroker mesh`: the nodes of a mesh, effects of failures, and changes of its links."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from broker.cli.failure import Failure, failure_of
from broker.cli.mesh_failure import UnknownElement, check_failure
from broker.cli.mesh_picture import Picture, read_picture
from broker.cli.mesh_report import (
    alarm_lines,
    dot_lines,
    failure_json,
    failure_lines,
    picture_json,
    picture_tables,
)
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.stop_signal import Stop
from broker.cli.terminal import echo, is_terminal, json_line, make_console, one_line, print_note
from broker.errors import BrokerError

#: Seconds between two questions about a change that goes on.
_PAUSE: Final = 0.5


class _Unchecked(Failure):
    """Nothing was checked: 1 means that a node would lose events."""

    exit_code = 2


class _MeshCommands(click.Group):
    """Without the name of a command, `show` is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_MeshCommands)
def command() -> None:
    """Show a mesh, check what failures would do to it, and change its links.

    `xmlbroker mesh [STACK]` is `xmlbroker mesh show [STACK]`. All nodes of the network are asked.
    The account needs the right to administer.
    """


_stack_argument = click.argument("stack", required=False, default="")
_stack_option = click.option(
    "--stack", default="", metavar="NAME", help="The mesh, if the node has several."
)
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="A line of JSON.  [default in a pipe]"
)


def _find_picture(answer: Any) -> Picture:
    picture = read_picture(answer)
    if picture.unanswered:
        names = ", ".join(picture.unanswered)
        print_note(f"{names} did not answer: known as far as the children know it")
    return picture


@command.command()
@_stack_argument
@click.option("--dot", "as_dot", is_flag=True, help="A graph for Graphviz.")
@_json_option
@node_options
def show(access: NodeAccess, stack: str, as_dot: bool, as_json: bool) -> None:
    """Show the nodes and links of the mesh STACK.

    Loss and round trip are those that the child measures on the link. A parent has saved a child
    an event that no other parent of it brought, or the time until the next copy came.
    """
    if as_dot and as_json:
        raise click.UsageError("give --dot or --json")
    picture = _find_picture(access.ask("operate", stack=stack))
    if as_dot:
        for line in dot_lines(picture):
            echo(line)
    elif as_json or not is_terminal():
        echo(json_line(picture_json(picture)))
    else:
        screen = make_console()
        for table in picture_tables(picture):
            screen.print(table)
        for line in alarm_lines(picture):
            screen.print(one_line(line))


@command.command()
@click.option(
    "--without",
    multiple=True,
    required=True,
    metavar="NODE|KIND=NAME",
    help="A node, or all with a diversity key as uplink=isp-a; repeat it for several.",
)
@_stack_option
@_json_option
@node_options
def check(access: NodeAccess, without: tuple[str, ...], stack: str, as_json: bool) -> None:
    """Show who would be cut off, or lose resilience, if nodes failed. Nothing is changed.

    The exit status is 1 if another node would lose events, 2 without an answer.
    """
    try:
        failure = check_failure(_find_picture(access.ask("operate", stack=stack)), without)
    except UnknownElement as error:
        raise _Unchecked(str(error)) from None
    except BrokerError as error:
        raise _Unchecked(failure_of(error).message) from None
    if as_json or not is_terminal():
        echo(json_line(failure_json(failure)))
    else:
        for line in failure_lines(failure):
            echo(one_line(line))
    sys.exit(bool(failure.cut_off))


@command.command()
@click.argument("node_name", metavar="NODE")
@_stack_option
@_json_option
@node_options
def rebalance(access: NodeAccess, node_name: str, stack: str, as_json: bool) -> None:
    """Let NODE find better parents, if there are some, and accept children again after `leave`.

    Its present parents stay until the new ones have brought events: nothing pauses.

    The exit status is 1 if it still changes parents after --timeout.
    """
    found = _operate(access, "rebalance", node_name, stack, lambda row: bool(row.get("moving")))
    parents = ", ".join(each["name"] for each in found.get("parents", ()))
    moving = " and others, which it compares" if found.get("moving") else ""
    _finish(found, as_json, f"{node_name}: its parents are {parents or 'none'}{moving}")
    sys.exit(bool(found.get("moving")))


@command.command()
@click.argument("node_name", metavar="NODE")
@_stack_option
@_json_option
@node_options
def leave(access: NodeAccess, node_name: str, stack: str, as_json: bool) -> None:
    """Let the children of NODE find other parents, and wait until it has none.

    Then nothing goes through it any more, and it may be stopped: nothing pauses. It keeps its own
    parents, and accepts no children until it starts again, or `xmlbroker mesh rebalance NODE`.

    The exit status is 1 if it still has children after --timeout: they have no other parents.
    """
    found = _operate(access, "leave", node_name, stack, lambda row: bool(row.get("children")))
    count, names = found.get("children", 0), ", ".join(found.get("child_names", ()))
    text = f"nothing goes through {node_name} any more"
    if count:
        text = f"{node_name} still has {count} children, which have found no other parent: {names}"
    _finish(found, as_json, text)
    sys.exit(bool(count))


def _operate(
    access: NodeAccess,
    action: str,
    node: str,
    stack: str,
    goes_on: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    """Begin a change at a node, and return its state when the change has ended, or after the
    timeout."""

    async def run() -> dict[str, Any]:
        async with access.session(Stop()) as client:
            end = asyncio.get_running_loop().time() + access.timeout
            asked = {"stack": stack, "node": node}
            answer = await access.ask_with(client, "operate", action=action, **asked)
            while goes_on(answer["nodes"][0]) and asyncio.get_running_loop().time() < end:
                await asyncio.sleep(_PAUSE)
                answer = await access.ask_with(client, "operate", action="show", **asked)
            row: dict[str, Any] = answer["nodes"][0]
            return row

    return asyncio.run(run())


def _finish(found: dict[str, Any], as_json: bool, text: str) -> None:
    if as_json or not is_terminal():
        echo(json_line(found))
    else:
        echo(one_line(text))
