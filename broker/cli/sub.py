"""`xmlbroker sub`: print the events that match a query."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import click

from broker.cli.event_format import FORMS, as_printable
from broker.cli.failure import Failure
from broker.cli.merge_options import merge_options
from broker.cli.namespaces import namespace_option
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.output import Output
from broker.cli.query_hint import check_single_query, hint_at_streams
from broker.cli.recovery_progress import ask_recoveries, note_stages
from broker.cli.starting_point import parse_start
from broker.cli.stop_signal import Stop, stop_on_signals
from broker.cli.terminal import is_terminal, print_note
from broker.client.merged import MergedSubscription, Merging
from broker.client.received import Start
from broker.client.subscription import Subscription
from broker.errors import BadQuery, BrokerError
from broker.event.stream import StreamPattern

#: Seconds for events in transit, after the end of the past.
_LAST_EVENTS_WAIT = 0.1


def _parse_start(_: click.Context, __: click.Parameter, value: str | None) -> Start | None:
    try:
        return None if value is None else parse_start(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


@click.command(context_settings={"allow_extra_args": True})
@click.argument("query", default="true()")
@click.option(
    "--streams",
    default=">",
    show_default=True,
    metavar="PATTERN",
    help="* matches one token, > the rest",
)
@namespace_option
@click.option(
    "--durable", default="", metavar="NAME", help="Continue this client's durable subscription."
)
@click.option(
    "--from",
    "start",
    callback=_parse_start,
    metavar="START",
    help="new, all, stored, a time (ISO 8601 or ms since 1970), or a position.  "
    "[default: new; stored with --durable]",
)
@click.option(
    "--queue",
    default="",
    metavar="POLICY",
    help="If this client is too slow: drop-oldest, drop-newest, coalesce (by stream), "
    "coalesce:PATH, block or fail.  [default: drop-oldest; block with --durable]",
)
@merge_options
@click.option("--mesh", is_flag=True, help="Get the events from routers of a mesh, by UDP.")
@click.option(
    "--parents",
    type=click.IntRange(1, 8),
    metavar="N",
    help="With --mesh: from so many routers, each event.  [default: 2]",
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N events.")
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Stop after this time without an event.",
)
@click.option("--payload", "form", flag_value="payload", help="Print only payloads.")
@click.option(
    "--json-payload",
    "form",
    flag_value="json-payload",
    help="Print the JSON of payloads of the type json.",
)
@click.option("--document", "form", flag_value="document", help="Print whole events.")
@click.option(
    "--json",
    "form",
    flag_value="json",
    help="Print one line of JSON per event.  [default in a pipe]",
)
@click.pass_context
@node_options
def command(
    context: click.Context,
    access: NodeAccess,
    query: str,
    streams: str,
    namespaces: dict[str, str],
    durable: str,
    start: Start | None,
    queue: str,
    merge: Merging | None,
    mesh: bool,
    parents: int | None,
    count: int | None,
    idle: float | None,
    form: str | None,
) -> None:
    """Print the events for which the XPath expression QUERY is true; all of them without one.

    The query sees the payload as its document: /flight[flightleg/altitude > 300]. A path that
    begins with /Mspaces:Event sees the envelope. $StreamId, $ClientId and $Securitylevel are
    variables.
    """
    check_single_query(context.args, query)
    StreamPattern.parse(streams)
    if durable and not (access.client_id or access.account):
        # A random client would never find it again.
        raise click.UsageError("--durable needs --client-id or --account: the name is one client's")
    if parents is not None and not mesh:
        raise click.UsageError("--parents needs --mesh")
    form = form or ("text" if is_terminal() else "json")

    async def run() -> None:
        with stop_on_signals() as stop:
            output = Output(
                sys.stdout.buffer,
                as_printable(FORMS[form]) if is_terminal() else FORMS[form],
                stop,
                json=form == "json",
                # Events of a durable subscription are written before they are acknowledged.
                is_unbuffered=bool(durable),
            )
            async with access.session(stop) as client:
                if stop:
                    return
                client.on_state = _note_state
                subscribe: Callable[..., Awaitable[Subscription]] = client.subscribe
                if mesh:
                    subscribe = partial(client.subscribe_in_mesh, parents=parents or 2)
                subscription = await stop.run_or_cancel(
                    subscribe(
                        query,
                        streams,
                        namespaces=namespaces,
                        durable=durable,
                        start=start,
                        queue=queue,
                        on_gap=output.print_gap,
                        on_change=output.print_change,
                        on_notice=output.print_notice,
                        merge=merge,
                    )
                )
                if subscription is None:
                    return
                if isinstance(subscription, MergedSubscription):
                    subscription.on_missing = output.print_missing
                hint = hint_at_streams(query)
                for warning in subscription.warnings:
                    print_note(f"warning: {warning}{'. ' * bool(hint)}{hint}")
                try:
                    async with note_stages(client):
                        past = partial(ask_recoveries, client)
                        await _print_events(subscription, output, stop, count, idle, past)
                finally:
                    output.flush()
                    client.on_state = None
                    if durable:
                        _acknowledge(subscription, output)
            if not output.is_broken:
                note = f"{output.events} events" + (f", {output.gaps} gaps" if output.gaps else "")
                if subscription.mesh is not None:
                    note += f", {subscription.mesh.events} came first through the mesh"
                print_note(note)

    try:
        asyncio.run(run())
    except BadQuery as error:
        if hint := hint_at_streams(query):
            raise Failure(f"{error}; {hint}") from None
        raise


async def _print_events(
    subscription: Subscription,
    output: Output,
    stop: Stop,
    count: int | None,
    idle: float | None,
    past: Callable[[], Awaitable[Sequence[object] | None]],
) -> None:
    loop = asyncio.get_running_loop()
    newest = loop.time()

    async def end_when_idle(seconds: float) -> None:
        nonlocal newest
        is_caught_up = False
        while not stop:
            over = loop.time() - newest
            if over < seconds:
                await stop.pause(seconds - over)
                continue
            left = await past()
            if left or (left is None and not is_caught_up):
                # A running recovery may send more.
                newest = loop.time()
            else:
                is_caught_up = True
                await stop.pause(_LAST_EVENTS_WAIT)
                if loop.time() - newest >= seconds:
                    stop.request()

    async def events() -> None:
        nonlocal newest
        async for event in subscription:
            output.print_event(event)
            newest = loop.time()
            if output.events == count or stop:
                return

    ending = None if idle is None else asyncio.ensure_future(end_when_idle(idle))
    try:
        await stop.run_or_cancel(events())
    finally:
        if ending is not None:
            ending.cancel()


def _acknowledge(subscription: Subscription, output: Output) -> None:
    """Later events of a message may be unprinted."""
    if output.last_event is not None and not output.is_broken:
        subscription.processed(output.last_event)


def _note_state(connected: bool, error: BrokerError | None) -> None:
    if connected:
        print_note("reconnected")
    else:
        print_note(f"connection lost{f': {error}' if error else ''}; retrying")
