"""Progress of publishing on a terminal: one line on stderr, five times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.cli.publishing.tally import Tally
from broker.cli.terminal import make_console, one_line
from broker.client.client import Client

_REFRESH_INTERVAL: Final = 0.2


@contextmanager
def show_progress(tally: Tally, client: Client, *, enabled: bool) -> Iterator[None]:
    """Update one line on stderr, five times a second. Enter it where a loop runs."""
    if not enabled:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    loop = asyncio.get_running_loop()
    began = loop.time()
    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=make_console(err=True),
        transient=True,
        auto_refresh=False,
    )
    task = line.add_task("")
    # Refusals are printed above the line.
    report, tally.report = (
        tally.report,
        lambda text: line.console.print(one_line(text), style="red"),
    )
    timer: asyncio.TimerHandle | None = None

    def refresh() -> None:
        nonlocal timer
        timer = loop.call_later(_REFRESH_INTERVAL, refresh)
        seconds = max(loop.time() - began, 1e-9)
        line.update(
            task,
            description=f"sent {tally.sent:,}   durable {tally.durable:,}   "
            + (f"known {tally.known:,}   " if tally.known else "")
            + f"refused {tally.refused:,}   {tally.durable / seconds:,.0f} events/s"
            + ("" if client.connected else "   no connection, retrying"),
        )
        line.refresh()

    with line:
        refresh()
        try:
            yield
        finally:
            tally.report = report
            if timer is not None:
                timer.cancel()
