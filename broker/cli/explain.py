"""`xmlbroker explain`: the evaluation of a query, and the reason for a match."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.explanation.path_tree import path_tables
from broker.cli.explanation.single_event import SingleEventError, read_single_event
from broker.cli.explanation.tables import explanation_tables
from broker.cli.failure import Failure, failure_of
from broker.cli.namespaces import namespace_option
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.publishing.preparation import PublishOptions
from broker.cli.terminal import echo, is_terminal, json_line, make_console
from broker.errors import BrokerError
from broker.event.stream import StreamPattern

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Exit statuses as of `grep`.
_NO_MATCH: Final = 1
_ERROR: Final = 2
#: It has received the event, or will.
_DELIVERED_VERDICTS: Final = frozenset(
    {"delivered", "unconfirmed", "catching-up", "paused", "away", "withheld"}
)
#: It had the event before, or began later.
_BEFORE_VERDICT: Final = "before"


@click.command()
@click.argument("query", required=False)
@click.argument("event", required=False)
@namespace_option
@click.option(
    "--streams", metavar="PATTERN", help="Also check that this pattern matches the event's stream."
)
@click.option(
    "--client",
    metavar="ID",
    help="Show the event's outcome for each subscription of this client; QUERY is optional.",
)
@click.option(
    "--type",
    "type_",
    nargs=2,
    metavar="NAME VERSION",
    help="The type of an EVENT that is a bare payload.  [default: from its root element]",
)
@click.option(
    "--mesh",
    "event_id",
    metavar="EVENT-ID",
    help="Show the paths of this event through its mesh; for administrators.",
)
@click.option("--here", is_flag=True, help="Ask only this node, not the others of its network.")
@click.option("--offline", is_flag=True, help="Ask no node: use the DTDs on this disk.")
@click.option(
    "--dtd",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="An additional folder of DTDs with a catalog.xml; implies --offline.",
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.  [default in a pipe]")
@node_options
def command(
    access: NodeAccess,
    query: str | None,
    event: str | None,
    namespaces: dict[str, str],
    streams: str | None,
    client: str | None,
    type_: tuple[str, str] | None,
    event_id: str | None,
    here: bool,
    offline: bool,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Show how QUERY is evaluated: by which indexes, or why by none, and its cost.

    EVENT is a file with one event or one payload, or - for a pipe. With it, show whether it matches
    and which condition failed. For a published event, show at which nodes of the network it was
    filtered, denied, or is missing. With --client, show why that client received the event or not;
    a single argument is then the EVENT. With --mesh, show at which node each copy of a published
    event was forwarded, filtered, late or lost; there are no other arguments.

    The exit status is 0 if the event matches (or there is none), 1 if it does not, 2 if that is
    unknown.
    """
    if event_id is not None:
        if query is not None or client is not None or offline or folder is not None:
            raise click.UsageError("--mesh takes an EVENT-ID, and no QUERY, EVENT or other option")
        _explain_paths(access, event_id, as_json)
        return
    if client is not None and event is None:
        query, event = None, query
    if query is None and client is None:
        raise click.UsageError("give a QUERY, or --client with an EVENT")
    offline = offline or folder is not None
    if offline and client is not None:
        raise click.UsageError("--client needs a node: it can not be used with --offline")
    try:
        pattern = None if streams is None else StreamPattern.parse(streams)
        document = b""
        if event is not None:
            document = read_single_event(
                event, lambda: sys.stdin.buffer, PublishOptions(type=type_ or None)
            )
        if offline:
            content = _explain_offline(query or "", namespaces, document, pattern, folder)
        else:
            alone = {"here": "yes"} if here else {}
            content = _ask_node(access, query, namespaces, document, streams, client, **alone)
    except (BrokerError, Failure, SingleEventError) as error:
        raise _explain_failure(error) from None
    _print_content(content, as_json, explanation_tables)
    sys.exit(_exit_status(content))


def _explain_paths(access: NodeAccess, event_id: str, as_json: bool) -> None:
    try:
        content = access.ask("event-paths", event=event_id)
    except (BrokerError, Failure) as error:
        raise _explain_failure(error) from None
    _print_content(content, as_json, path_tables)
    sys.exit(_ERROR if content["place"] is None else 0)


def _print_content(
    content: Any, as_json: bool, tables: Callable[[Any], Iterable[RenderableType]]
) -> None:
    if as_json or not is_terminal():
        echo(json_line(content))
        return
    screen = make_console()
    for table in tables(content):
        screen.print(table)


def _explain_offline(
    query: str,
    namespaces: dict[str, str],
    document: bytes,
    pattern: StreamPattern | None,
    folder: Path | None,
) -> dict[str, Any]:
    # The engine and Twisted take long to load.
    from broker.cli.explanation.offline import explain_offline

    return explain_offline(query, namespaces, document or None, pattern, folder)


def _ask_node(
    access: NodeAccess,
    query: str | None,
    namespaces: dict[str, str],
    document: bytes,
    streams: str | None,
    client: str | None,
    **extra: str,
) -> Any:
    options = {"query": query, "streams": streams, "client": client, **extra}
    arguments = {name: value for name, value in options.items() if value is not None}
    return access.ask("explain", document, namespaces=json.dumps(namespaces), **arguments)


class _ExplainFailure(Failure):
    exit_code = _ERROR


def _explain_failure(error: BrokerError | Failure | SingleEventError) -> Failure:
    if isinstance(error, BrokerError):
        return _ExplainFailure(failure_of(error).message)
    return _ExplainFailure(str(error))


def _exit_status(content: Any) -> int:
    explanation, client = content.get("explanation"), content.get("client")
    if explanation is None:
        rows = list((client or {}).get("subscriptions", ()))
        for node in (content.get("network") or {}).get("nodes", ()):
            rows += node["subscriptions"]
        verdicts = {each.get("verdict") for each in rows}
        if verdicts & _DELIVERED_VERDICTS or "" in verdicts:
            return 0
        return _ERROR if _BEFORE_VERDICT in verdicts else _NO_MATCH
    event = explanation.get("event")
    if event is None:
        return 0
    if event.get("matches") is None:
        return _ERROR
    subscription = content.get("subscription") or {}
    through = subscription.get("stream", True) and subscription.get("cleared", True)
    return 0 if event["matches"] and through else _NO_MATCH
