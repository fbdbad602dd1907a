"""`xmlbroker pub`: publish XML documents from files, folders, archives or a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import threading
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from signal import SIGTERM

import click

from broker.cli.failure import failure_of
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.publishing.collection_splitter import Split
from broker.cli.publishing.document_reader import Item, read_all
from broker.cli.publishing.event_time import parse_time_option
from broker.cli.publishing.input_options import (
    InputOptions,
    check_content_options,
    input_options,
)
from broker.cli.publishing.key_options import KeyOptions, key_options
from broker.cli.publishing.pace import AsFastAsPossible, OriginalPace, Pace, Rate, TimePath
from broker.cli.publishing.preparation import Preparation, PublishOptions
from broker.cli.publishing.progress import show_progress
from broker.cli.publishing.publication import PortionEnd, Publication, Refusal
from broker.cli.publishing.publish_run import (
    MAX_OUTSTANDING,
    MAX_OUTSTANDING_WITH_KEYS,
    PublishRun,
)
from broker.cli.publishing.published_table import PublishedTable, table_key
from broker.cli.publishing.reader_thread import ReaderThread
from broker.cli.publishing.split_options import split_options
from broker.cli.publishing.supervision import ignore_interrupts, supervised_by_node
from broker.cli.publishing.tally import Tally
from broker.cli.standard_input import open_stdin
from broker.cli.stop_signal import SIGNALS, stop_on_signals
from broker.cli.terminal import echo, print_note
from broker.event.envelope import SecurityLevel
from broker.event.stream import check_stream_name


def _parse_time_path(_: click.Context, __: click.Parameter, value: str | None) -> TimePath | None:
    try:
        return None if value is None else TimePath(value)
    except ValueError as error:
        raise click.BadParameter(
            f"{value!r}: {error}; give a path such as Who/Date, .//Time or head/@at"
        ) from None


@click.command(no_args_is_help=True)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--stream", help="The stream.  [default: from the document, or its type]")
@click.option(
    "--type",
    "type_",
    nargs=2,
    metavar="NAME VERSION",
    help="The event type.  [default: from the document's root element]",
)
@click.option(
    "--security-level",
    type=click.Choice([level.value for level in SecurityLevel]),
    help="The events' security level.  [default: med]",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="Publish N events a second.  [default: as fast as possible]",
)
@click.option(
    "--pace",
    type=click.FloatRange(min=0, min_open=True),
    metavar="FACTOR",
    help="Keep the spacing of the events' own times; 10 is ten times as fast.",
)
@click.option(
    "--time-from",
    callback=_parse_time_path,
    metavar="PATH",
    help="Path of a payload's time, for --pace.  [default: known for the shipped types]",
)
@click.option(
    "--time",
    "time_text",
    metavar="XPATH",
    help="The event's own time, by this expression in its payload: ISO 8601, or ms since 1970.",
)
@click.option(
    "--json-payload",
    is_flag=True,
    help="Publish each JSON value, or each feature of GeoJSON, as XML of the type json.",
)
@split_options
@key_options
@input_options
@click.option("--dry-run", is_flag=True, help="Read and check everything; send nothing.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first refusal.")
@click.option("--supervised", is_flag=True, hidden=True, help="The standard input is the node's.")
@node_options
def command(
    access: NodeAccess,
    sources: tuple[str, ...],
    stream: str | None,
    type_: tuple[str, str] | None,
    security_level: str | None,
    rate: float | None,
    pace: float | None,
    time_from: TimePath | None,
    time_text: str | None,
    json_payload: bool,
    split: Split | None,
    namespaces: dict[str, str],
    keys: KeyOptions,
    input_: InputOptions,
    dry_run: bool,
    fail_fast: bool,
    supervised: bool,
) -> None:
    """Publish every document of every SOURCE, and wait until all are durable.

    A SOURCE is a file, a folder, a tar archive, or - for a pipe. A file holds one XML document,
    several concatenated ones, or JSON lines; it may be compressed. With --watch a SOURCE is a
    folder, with --every an address.

    Documents that can not be published are reported on stderr and counted; the rest is published.
    The exit status is 1 if there were any.
    """
    if not sources:
        name, version = type_ or ("", "")
        if Path(version).exists() and version:
            raise click.UsageError(
                f"--type takes a name and a version, such as: --type {name} 1.0 {version}"
            )
        raise click.UsageError("Missing argument 'SOURCE...': a file, a folder, or - for a pipe.")
    if rate is not None and pace is not None:
        raise click.UsageError("--rate and --pace exclude each other")
    if stream is not None:
        check_stream_name(stream)
    rule = keys.parse_rule(namespaces)
    time_rule = parse_time_option(time_text, namespaces)
    options = PublishOptions(
        stream=stream,
        type=type_ or None,
        security_level=SecurityLevel(security_level) if security_level else None,
        time_from=time_from,
        time=time_rule,
        key=rule,
        json_payload=json_payload,
    )
    tally = Tally(print_note)
    check_content_options(
        split=split is not None,
        namespaces=namespaces,
        expressions=(rule, time_rule),
        json_payload=json_payload,
    )
    needs_table = rule is not None or input_.is_repeated
    if not needs_table and (keys.published is not None or keys.most is not None):
        raise click.UsageError("--published and --published-max need --id, --watch or --every")
    input_.check_sources(sources, dry_run=dry_run, folders_exist=not supervised)
    preparation = Preparation(options)
    if dry_run:
        began = time.monotonic()
        _dry_run(read_all(sources, open_stdin, preparation, split), tally, fail_fast)
        _print_summary(tally, time.monotonic() - began, stopped=False)
        raise SystemExit(1 if tally.refused else 0)
    speed: Pace = AsFastAsPossible()
    if rate is not None:
        speed = Rate(rate)
    elif pace is not None:
        speed = OriginalPace(pace)
    # Equal settings make equal events of a document.
    made_by = {
        "stream": stream,
        "type": type_,
        "split": split and split.path.text,
        "id": rule and rule.text,
        "json": json_payload,
        "namespaces": namespaces,
        "time": time_text,
    }
    with contextlib.ExitStack() as stack:
        table = None
        if needs_table:
            repeated = input_.find_names(sources)
            place = {"nodes": access.endpoints, "sources": repeated}
            label = "-".join(type_ or repeated[:1] or [rule.text if rule else ""])
            table = keys.open_table(label, {**place, **made_by})
            stack.enter_context(contextlib.closing(table))
        stopped = threading.Event()
        stack.callback(stopped.set)
        digest = table_key(json.dumps(made_by, sort_keys=True))
        items = input_.read_sources(sources, preparation, split, table, stopped, digest)
        run = _publish(access, items, tally, speed, fail_fast, table, supervised)
        status = asyncio.run(run)
    raise SystemExit(status)


async def _publish(
    access: NodeAccess,
    items: Generator[Item | PortionEnd, None, None],
    tally: Tally,
    pace: Pace,
    fail_fast: bool,
    table: PublishedTable | None,
    supervised: bool,
) -> int:
    async with contextlib.AsyncExitStack() as stack:
        stop = stack.enter_context(stop_on_signals((SIGTERM,) if supervised else SIGNALS))
        if supervised:
            ignore_interrupts()
            await stack.enter_async_context(supervised_by_node(tally, stop))
        async with access.session(stop) as client:
            began = time.monotonic()
            publishing = PublishRun(
                client,
                tally,
                pace,
                stop,
                timeout=access.timeout,
                fail_fast=fail_fast,
                most_outstanding=MAX_OUTSTANDING if table is None else MAX_OUTSTANDING_WITH_KEYS,
                table=table,
            )
            reading = ReaderThread(
                items,
                size_of=_size_of,
                is_portion_end=lambda item: isinstance(item, PortionEnd),
            )
            with show_progress(tally, client, enabled=sys.stderr.isatty()):
                await publishing.run(reading)
            reading.cancel()
        # No receipt is outstanding now.
        if not supervised:
            _print_summary(tally, time.monotonic() - began, stopped=stop.signal is not None)
        if publishing.error is not None:
            raise failure_of(publishing.error)
        return stop.exit_status or (1 if tally.refused or tally.unconfirmed else 0)


def _size_of(item: Item | PortionEnd) -> int:
    return len(item.payload or b"") if isinstance(item, Publication) else 0


def _dry_run(items: Iterable[Item], tally: Tally, fail_fast: bool) -> None:
    for item in items:
        if not isinstance(item, Refusal):
            tally.found += 1
            continue
        tally.count_refused(item)
        if fail_fast:
            return


def _print_summary(tally: Tally, seconds: float, *, stopped: bool) -> None:
    if not sys.stdout.isatty():
        echo(tally.summary(seconds))
    if stopped or sys.stderr.isatty() or sys.stdout.isatty():
        unconfirmed = tally.unconfirmed
        rate = tally.durable / seconds if seconds > 0 else 0.0
        print_note(
            f"{tally.durable} of {tally.found} events are durable, {tally.refused} refused"
            + (f", {tally.known} known" if tally.known else "")
            + (f", {tally.duplicates} duplicates" if tally.duplicates else "")
            + (f", {unconfirmed} without a receipt" if unconfirmed else "")
            + f"; {seconds:.1f} s, {rate:,.0f} events/s"
        )
