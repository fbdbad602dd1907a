"""The progress of publishing on a terminal: one line on stderr, a few times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from broker.cli.publishing.tally import Tally
from broker.cli.terminal import console, one_line
from broker.client.client import Client

_PERIOD: Final = 0.2


@contextmanager
def shown(tally: Tally, client: Client, *, wanted: bool) -> Iterator[None]:
    """Shows the tally while the block runs, if `wanted`; to be entered where a loop runs."""
    if not wanted:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    loop = asyncio.get_running_loop()
    began = loop.time()
    line = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console(err=True),
        transient=True,
        auto_refresh=False,
    )
    task = line.add_task("")
    # Refusals are printed above the line, not through it.
    tell, tally.tell = tally.tell, lambda text: line.console.print(one_line(text), style="red")
    timer: asyncio.TimerHandle | None = None

    def refresh() -> None:
        nonlocal timer
        timer = loop.call_later(_PERIOD, refresh)
        seconds = max(loop.time() - began, 1e-9)
        line.update(
            task,
            description=f"sent {tally.sent:,}   durable {tally.durable:,}   "
            f"refused {tally.refused:,}   {tally.durable / seconds:,.0f} events/s"
            + ("" if client.connected else "   no connection, trying again"),
        )
        line.refresh()

    with line:
        refresh()
        try:
            yield
        finally:
            tally.tell = tell
            if timer is not None:
                timer.cancel()
