"""`xmlbroker order`: groups of sites and changes to them, proofs of their order, and keys."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.comparison_report import comparison_lines
from broker.cli.failure import Failure, failure_of
from broker.cli.group_report import group_lines, site_lines
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.starting_point import parse_end
from broker.cli.stop_signal import Stop
from broker.cli.terminal import echo, is_terminal, json_line, one_line
from broker.errors import BrokerError
from broker.private_files import PRIVATE_UMASK, use_umask
from broker.transport.clock import wall_clock_ms

if TYPE_CHECKING:
    from broker.cli.order_verification import Verification

#: No site has proved it, or it is not known: as of `explain`.
_UNKNOWN: Final = 2


class _Unknown(Failure):
    exit_code = _UNKNOWN


def _parse_stamp(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Accept a stamp, or a time, which is a stamp in microseconds since 1970."""
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        found = parse_end(text, wall_clock_ms())
    except ValueError:
        found = None
    if not isinstance(found, int):
        raise click.BadParameter(f"{text!r} is neither a stamp nor a time")
    return found * 1000


def _stamp_option(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, metavar="STAMP|TIME", callback=_parse_stamp, help=text)


@click.group(no_args_is_help=True)
def command() -> None:
    """Show and change the sites of groups that order events, and prove their order."""


_stack_argument = click.argument("stack", required=False)
_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Lines of JSON.  [default in a pipe]"
)


def _find_groups(access: NodeAccess, stack: str | None, key: str, kind: str) -> list[Any]:
    """Return the status of each group that has a key, or of the group `stack`."""
    answer = access.ask("status")
    groups = [
        each
        for each in answer.get("stacks", ())
        if each.get(key) and stack in (None, each.get("name"))
    ]
    if not groups:
        name = f"a {kind}" if stack is None else f"the {kind} {stack}"
        raise _Unknown(f"the node is no site of {name}")
    return groups


@command.command()
@_stack_argument
@_json_option
@node_options
def status(access: NodeAccess, stack: str | None, as_json: bool) -> None:
    """Show the groups of a node, or the group STACK: each other site with its status and reason.

    The exit status is 1 if a site is not connected, 2 without such a group.
    """
    groups = _find_groups(access, stack, "order", "group")
    for group in groups:
        if as_json or not is_terminal():
            echo(json_line(group))
        else:
            for line in group_lines(group):
                echo(one_line(line))
    sites = [site for group in groups for site in group.get("peers", ())]
    sys.exit(any(site.get("status") != "connected" for site in sites))


@command.command()
@click.argument("stack")
@click.argument("site")
@click.argument("address")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.  [default in a pipe]")
@node_options
def admit(access: NodeAccess, stack: str, site: str, address: str, as_json: bool) -> None:
    """Admit the node SITE to the group STACK, also after a removal, or change its address.

    Ask any site of the group. ADDRESS is that at which SITE listens for the other sites, as in the
    option `sites`. Start the node with a configuration that has itself and some sites; until it is
    admitted they refuse it, and it tries again.

    The exit status is 1 if a later change of SITE counts.
    """
    _change_sites(access, "order-admit", as_json, stack=stack, site=site, address=address)


@command.command()
@click.argument("stack")
@click.argument("site")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON.  [default in a pipe]")
@node_options
def remove(access: NodeAccess, stack: str, site: str, as_json: bool) -> None:
    """Remove the node SITE from the group STACK. No site waits for it any more.

    Ask any site of the group. Events of SITE that are in logs stay. The node refuses further ones.

    The exit status is 1 if a later change of SITE counts.
    """
    _change_sites(access, "order-remove", as_json, stack=stack, site=site)


def _change_sites(access: NodeAccess, question: str, as_json: bool, /, **arguments: str) -> None:
    answer = access.ask(question, **arguments)
    if as_json or not is_terminal():
        echo(json_line(answer))
    else:
        for line in site_lines(answer):
            echo(one_line(line))
    sys.exit(not answer.get("applied"))


@command.command()
@_stack_argument
@_json_option
@node_options
def compare(access: NodeAccess, stack: str | None, as_json: bool) -> None:
    """Show the variants that the groups of a node compare, or the group STACK, on its messages.

    The delay of a message is from its release until its delivery in time, as median and p99: of
    this site's messages, and of others with the error of the measured clocks. Then late messages,
    and the bytes that this site has sent beside payloads. The verdict is about the order at this
    site, and blocks of it that other sites have too.

    The exit status is 1 if a variant has broken a property of the order, 2 without a comparison.
    """
    groups = _find_groups(access, stack, "comparison", "compared group")
    for group in groups:
        comparison = group["comparison"]
        if as_json or not is_terminal():
            echo(json_line({"stack": group.get("name"), **comparison}))
        else:
            for line in comparison_lines(group):
                echo(one_line(line))
    variants = [each for group in groups for each in group["comparison"].get("variants", ())]
    sys.exit(not all(each.get("kept") for each in variants))


@command.command()
@click.argument("event", required=False)
@_stamp_option("--stamp", "Verify the event with this stamp.")
@click.option("--tie", default="", metavar="SITE", help="The tie of equal stamps.")
@_stamp_option("--since", "Verify all events from here on.")
@_stamp_option("--until", "Verify all events up to here.")
@click.option("--stack", default="", metavar="NAME", help="The stack, if the node has several.")
@click.option(
    "--keys",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    required=True,
    metavar="FILE",
    help="The pinned keys: TOML with a public key for each site.",
)
@click.option(
    "--document",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="FILE",
    help="Your copy of the event, which must be the proved one.",
)
@click.option(
    "--least",
    type=click.IntRange(1, 32),
    default=1,
    show_default=True,
    metavar="N",
    help="Sites that must prove it.",
)
@_json_option
@node_options
def verify(
    access: NodeAccess,
    event: str | None,
    stamp: int | None,
    tie: str,
    since: int | None,
    until: int | None,
    stack: str,
    keys: Path,
    document: Path | None,
    least: int,
    as_json: bool,
) -> None:
    """Verify the place of EVENT, or all places in a range, by the certificates of sites.

    EVENT is an EventId as CLIENT/INCARNATION/NUMBER. The node gives proofs; signatures are checked
    here, against the pinned keys, so the node need not be trusted.

    The exit status is 0 if at least --least sites prove it, 1 if a proof is false, or too few
    sites prove it and others differ, 2 if it is unknown, or too few sites have signed it.
    """
    is_range = since is not None or until is not None
    if (event is not None) + (stamp is not None) + is_range != 1:
        raise click.UsageError("give an EVENT, --stamp, or --since and --until")
    if is_range and (since is None or until is None or document is not None):
        raise click.UsageError("a range has --since and --until, and no --document")
    copy = None if document is None else document.read_bytes()
    asked = {"event": event} if event else {"stamp": str(stamp), "tie": tie}

    async def verify_all() -> list[Verification]:
        # The library of keys takes long to load.
        from broker.cli.order_verification import OrderProofs, read_keys

        pinned = read_keys(keys)
        async with access.session(Stop()) as client:
            proofs = OrderProofs(partial(access.ask_with, client), stack, pinned, least)
            if since is not None and until is not None:
                return [each async for each in proofs.verify_range(since, until)]
            return [await proofs.verify_event(asked, copy)]

    try:
        found = asyncio.run(verify_all())
    except BrokerError as error:
        raise _Unknown(failure_of(error).message) from None
    _print(found, as_json or not is_terminal())
    sys.exit(max((each.status for each in found), key=_severity, default=_UNKNOWN))


@command.command()
@click.argument("where", metavar="NODE.toml|FOLDER", type=click.Path(path_type=Path, exists=True))
def key(where: Path) -> None:
    """Print the public key of a node for `network.public_keys`.

    The node is named by its configuration, or by its data folder. A node that has not started yet
    gets its key now: run this command as the user of the node.
    """
    from broker.config import load
    from broker.signatures.node_key import load_node_key

    use_umask(PRIVATE_UMASK)
    try:
        found = load_node_key(load(where).node.data if where.suffix == ".toml" else where)
    except BrokerError as error:
        raise failure_of(error) from None
    echo(str(found.public))


def _severity(status: int) -> int:
    """Return a rank: a false proof is worse than an unknown one."""
    return (0, _UNKNOWN, 1).index(status)


def _print(found: list[Verification], as_json: bool) -> None:
    for each in found:
        if as_json:
            echo(json_line(each.content))
            continue
        for line in each.lines():
            echo(one_line(line))
