"""`xmlbroker top`: the state of nodes, live."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from broker.cli.node_access import NodeAccess, node_options
from broker.cli.node_sample import Sample, compute_rates, take_samples, watch_nodes
from broker.cli.overview import overview_tables
from broker.cli.stop_signal import stop_on_signals
from broker.cli.terminal import echo, is_terminal, json_line, make_console

#: Seconds between samples.
INTERVAL: Final = 2.0
#: Least seconds for an answer.
_MIN_TIMEOUT: Final = 1.0

#: Called with the samples and the previous ones.
Show = Callable[[Sequence[Sample], Sequence[Sample | None]], None]


@click.command()
@click.option(
    "--json", "as_json", is_flag=True, help="One line of JSON per sample.  [default in a pipe]"
)
@click.option("--once", is_flag=True, help="Sample once.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=INTERVAL,
    show_default=True,
    metavar="SECONDS",
    help="Time between two samples.",
)
@node_options
def command(access: NodeAccess, as_json: bool, once: bool, interval: float) -> None:
    """Watch nodes, their links and their traffic, with rates; each --node has a row.

    An unreachable node is shown as such and retried. Ctrl-C ends it.
    """
    as_json = as_json or not is_terminal()
    gone = asyncio.run(_watch(access, as_json, once, interval))
    if once and gone:
        raise SystemExit(1)


async def _watch(access: NodeAccess, as_json: bool, once: bool, interval: float) -> bool:
    timeout = access.timeout
    if not once:
        timeout = min(timeout, max(interval, _MIN_TIMEOUT))
    loop = asyncio.get_running_loop()
    samples: list[Sample] = []
    with stop_on_signals() as stop, _screen(as_json, once) as show:
        async with watch_nodes(access, timeout) as nodes:
            before: list[Sample | None] = [None] * len(nodes)
            while not stop:
                began = loop.time()
                taken = await stop.run_or_cancel(take_samples(nodes))
                if taken is None:
                    break
                samples = taken
                show(samples, before)
                before = list(samples)
                if once:
                    break
                await stop.pause(max(0.0, began + interval - loop.time()))
    return any(sample.status is None for sample in samples)


@contextlib.contextmanager
def _screen(as_json: bool, once: bool) -> Iterator[Show]:
    if as_json:
        yield _print_line
    elif once:
        yield _print_tables
    else:
        from rich.console import Group
        from rich.live import Live

        with Live(console=make_console(), screen=True, auto_refresh=False) as live:

            def show(samples: Sequence[Sample], before: Sequence[Sample | None]) -> None:
                found = [compute_rates(*pair) for pair in zip(before, samples, strict=True)]
                live.update(Group(*overview_tables(samples, found)), refresh=True)

            yield show


def _print_tables(samples: Sequence[Sample], before: Sequence[Sample | None]) -> None:
    screen = make_console()
    for table in overview_tables(samples, [{} for _ in samples]):
        screen.print(table)


def _print_line(samples: Sequence[Sample], before: Sequence[Sample | None]) -> None:
    nodes = [
        {**sample.to_json(), "rates": compute_rates(earlier, sample)}
        for earlier, sample in zip(before, samples, strict=True)
    ]
    echo(json_line({"at_ms": int(time.time() * 1000), "nodes": nodes}))
