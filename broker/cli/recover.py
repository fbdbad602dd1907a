"""`xmlbroker recover`: replay published events, or show their sources."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import click

from broker.cli.event_format import FORMS
from broker.cli.namespaces import namespace_option
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.output import Output
from broker.cli.recovery_plan import plan_lines
from broker.cli.recovery_progress import progress_bar, update_progress
from broker.cli.starting_point import parse_end
from broker.cli.stop_signal import Stop, stop_on_signals
from broker.cli.terminal import echo, is_terminal, json_line, print_note
from broker.client.latest import Latest, by_stream, by_xpath
from broker.client.resolved import BUNDLE, PUBLISHER
from broker.client.subscription import Subscription
from broker.errors import BrokerError
from broker.event.envelope import MAX_EVENT_TIME
from broker.event.event_time import ANY_TIME, EventTimes
from broker.event.place import Position
from broker.event.stream import StreamPattern
from broker.transport.clock import wall_clock_ms


@attrs.frozen
class ReplayBounds:
    since: Position | None
    since_time: int
    until: Position | None
    until_time: int
    last: int


def _parse_bounds(
    _: click.Context, __: click.Parameter, values: Sequence[str]
) -> list[Position | int]:
    now = wall_clock_ms()
    found = []
    for value in values:
        try:
            found.append(parse_end(value, now))
        except ValueError as error:
            raise click.BadParameter(f"{value!r}: {error}") from None
    speed = {type(each) for each in found}
    if len(speed) < len(found):
        raise click.BadParameter("at most one position and one time can be given")
    return found


def _bound_option(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(
        name, multiple=True, callback=_parse_bounds, metavar="POSITION|TIME|AGO", help=text
    )


def _parse_event_time(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        time = parse_end(value, wall_clock_ms())
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None
    if not isinstance(time, int):
        raise click.BadParameter(f"{value!r} is a position: give a time")
    return time


def _find_event_times(since: int | None, until: int | None) -> EventTimes:
    if since is None and until is None:
        return ANY_TIME
    # 0 would be no bound.
    times = (since or 0, MAX_EVENT_TIME if until is None else until)
    if times[0] >= times[1]:
        raise click.UsageError("--time-since must be before --time-until")
    return times


def _time_option(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(name, callback=_parse_event_time, metavar="TIME|AGO", help=text)


@click.command()
@click.argument("query", required=False)
@click.option("--streams", metavar="PATTERN", help="* matches one token, > the rest.  [default: >]")
@namespace_option
@_bound_option(
    "--since",
    "A position, a time (ISO 8601 or ms since 1970), or a time ago: 90s, 1h30m, 7d. With both, "
    "the time applies to origins not in the position.  [default: the oldest event]",
)
@_bound_option("--until", "The end, in the form of --since.  [default: now]")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@click.option(
    "--last-per",
    metavar="KEY",
    help="Only the newest event of each KEY: an XPath expression on the payload, or stream.",
)
@click.option(
    "--durable",
    default="",
    metavar="NAME",
    help="Replay the unprocessed events of this subscription; its position stays.",
)
@click.option(
    "--pace",
    type=click.FloatRange(min=0, min_open=True),
    metavar="FACTOR",
    help="Multiple of the pace of arrival.  [default: as fast as possible]",
)
@click.option(
    "--pace-by",
    type=click.Choice(["arrival", "time"]),
    help="time: the pace of the events' own times; those without one come at once.",
)
@_time_option("--time-since", "Only events with a time of their own, from this on: as --since.")
@_time_option("--time-until", "The end of these times, exclusive.")
@click.option("--rate", type=click.IntRange(min=1), metavar="N", help="At most N events a second.")
@click.option(
    "--order",
    type=click.Choice([PUBLISHER, BUNDLE]),
    default=PUBLISHER,
    help="bundle: by the events' linkage; all events are read before the first is printed.",
)
@click.option("--explain", is_flag=True, help="Replay nothing; show the sources.")
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
@node_options
def command(
    access: NodeAccess,
    query: str | None,
    streams: str | None,
    namespaces: dict[str, str],
    since: list[Position | int],
    until: list[Position | int],
    last: int | None,
    last_per: str | None,
    durable: str,
    pace: float | None,
    pace_by: str | None,
    time_since: int | None,
    time_until: int | None,
    rate: int | None,
    order: str,
    explain: bool,
    form: str | None,
) -> None:
    """Print the events published in the past for which the XPath expression QUERY is true.

    They come from the logs of nodes and from the archive. The replay ends with the events that
    arrived before now, or at --until. After Ctrl-C the last line names the option to continue with,
    and the exit status is 130.
    """
    ends = _check_bounds(since, until, last, durable, access)
    if pace_by and not pace:
        raise click.UsageError("--pace-by needs --pace")
    event_times = _find_event_times(time_since, time_until)
    StreamPattern.parse(streams or ">")
    wanted = {"query": query, "streams": streams}
    texts = {name: value for name, value in wanted.items() if value is not None}
    if explain:
        _print_plan(access, texts, namespaces, ends, durable, form == "json" or not is_terminal())
        return
    form = form or ("text" if is_terminal() else "json")
    speed: dict[str, Any] = {"pace": pace or 0.0, "rate": rate or 0, "order": order}
    # Nodes of earlier versions refuse these.
    if pace_by == "time":
        speed["paced_by_time"] = True
    if event_times != ANY_TIME:
        speed["event_times"] = event_times
    latest = None if last_per is None else _make_latest(last_per, namespaces)
    signal = asyncio.run(_replay(access, texts, namespaces, ends, durable, speed, form, latest))
    if signal:
        raise SystemExit(signal)


def _check_bounds(
    since: list[Position | int],
    until: list[Position | int],
    last: int | None,
    durable: str,
    access: NodeAccess,
) -> ReplayBounds:
    if durable and not (access.client_id or access.account):
        raise click.UsageError("--durable needs --client-id or --account: the name is one client's")
    if durable and (since or last):
        raise click.UsageError("--durable sets the start: give it without --since and --last")
    if last and since:
        raise click.UsageError("--last sets the start: give it without --since")
    ends = ReplayBounds(*_split_bounds(since), *_split_bounds(until), last or 0)
    if ends.since_time and ends.until_time and ends.since_time >= ends.until_time:
        raise click.UsageError("--since must be before --until")
    if ends.since_time > wall_clock_ms():
        raise click.UsageError("--since is in the future")
    return ends


def _split_bounds(found: list[Position | int]) -> tuple[Position | None, int]:
    positions = [each for each in found if isinstance(each, Position)]
    times = [each for each in found if isinstance(each, int)]
    return positions[0] if positions else None, times[0] if times else 0


def _plan_arguments(
    texts: dict[str, str], namespaces: dict[str, str], ends: ReplayBounds, durable: str
) -> dict[str, str]:
    asked = {**texts, "namespaces": json.dumps(namespaces)}
    for name, position in (("since", ends.since), ("until", ends.until)):
        if position is not None:
            asked[name] = str(position)
    return {**asked, **({"durable": durable} if durable else {})}


def _print_plan(
    access: NodeAccess,
    texts: dict[str, str],
    namespaces: dict[str, str],
    ends: ReplayBounds,
    durable: str,
    as_lines: bool,
) -> None:
    plan = access.ask("recover-explain", **_plan_arguments(texts, namespaces, ends, durable))
    if as_lines:
        echo(json_line(plan))
        return
    for line in plan_lines(plan):
        echo(line)


async def _replay(
    access: NodeAccess,
    texts: dict[str, str],
    namespaces: dict[str, str],
    ends: ReplayBounds,
    durable: str,
    speed: dict[str, Any],
    form: str,
    latest: Latest | None,
) -> int:
    with stop_on_signals() as stop:
        async with access.session(stop) as client:
            if stop:
                return stop.exit_status
            client.on_state = _note_state
            options: dict[str, Any] = {**texts, "namespaces": namespaces}
            if durable:
                question = _plan_arguments(texts, namespaces, ends, durable)
                known = await stop.run_or_cancel(client.ask("recover-explain", **question))
                if known is None:
                    return stop.exit_status
                options = {name: known[name] for name in ("query", "streams", "namespaces")}
                ends = attrs.evolve(ends, since=Position.parse(known["position"]))
            with progress_bar() as (bar, stream):
                output = Output(stream, FORMS[form], stop, json=form == "json", is_unbuffered=False)
                subscription = client.replay(
                    **options, **attrs.asdict(ends, recurse=False), **speed, on_gap=output.print_gap
                )
                async with update_progress(bar, client):
                    await _print_events(subscription, output, stop, latest)
            client.on_state = None
            _note_end(subscription, output, stop, ends, latest)
    return stop.exit_status


def _make_latest(key: str, namespaces: dict[str, str]) -> Latest:
    return Latest(by_stream if key == "stream" else by_xpath(key, namespaces))


async def _print_events(
    subscription: Subscription, output: Output, stop: Stop, latest: Latest | None
) -> None:
    async def events() -> None:
        async for event in subscription:
            if latest is None:
                output.print_event(event)
            else:
                latest.add(event)
            if stop:
                return
        for event in latest.events if latest is not None else ():
            output.print_event(event)

    try:
        await stop.run_or_cancel(events())
    finally:
        output.flush()
        if output.last_event is not None and stop:
            subscription.processed(output.last_event)
        subscription.unsubscribe()


def _note_end(
    subscription: Subscription,
    output: Output,
    stop: Stop,
    ends: ReplayBounds,
    latest: Latest | None,
) -> None:
    for warning in subscription.warnings:
        print_note(f"warning: {warning}")
    if output.is_broken:
        return
    counted = f"{output.events} events" + (f", {output.gaps} gaps" if output.gaps else "")
    if not stop:
        print_note(counted)
        return
    again = "a new run begins anew"
    if not (ends.last or latest) and subscription.position.marks:
        # The time applies to origins that have sent nothing.
        begins = f" --since {ends.since_time}" if ends.since_time else ""
        again = f"continue with --since {subscription.position}{begins}"
    print_note(f"stopped after {counted}; {again}")


def _note_state(connected: bool, error: BrokerError | None) -> None:
    if connected:
        print_note("reconnected")
    else:
        print_note(f"connection lost{f': {error}' if error else ''}; retrying")
