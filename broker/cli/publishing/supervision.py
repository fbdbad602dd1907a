"""The connection of `pub` with the node that runs it as an input."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import click

from broker.child.connection import DESCRIPTOR
from broker.child.input_report import CODEC, InputReport
from broker.cli.publishing.tally import Tally
from broker.cli.stop_signal import Stop
from broker.transport.socket import framing

#: Seconds between two reports.
REPORT_INTERVAL: Final = 1.0
#: Reports after which refusals are printed again, up to the bound: a source may fail for days.
REPORTS_OF_A_PORTION: Final = 60


def ignore_interrupts() -> None:
    """Ctrl-C in the terminal of the node ends the node, which then stops its inputs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@asynccontextmanager
async def supervised_by_node(
    tally: Tally, stop: Stop, descriptor: int = DESCRIPTOR, interval: float = REPORT_INTERVAL
) -> AsyncIterator[None]:
    """Report the counts each `interval` seconds to the node at the other end of a socket.

    `stop` is requested when the node has closed its end or has died. The `descriptor` is that of
    the connected socket.
    """
    try:
        connection = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        raise click.UsageError("--supervised: the standard input is no socket") from None
    reader, writer = await asyncio.open_connection(sock=connection)

    async def await_end() -> None:
        try:
            await reader.read()
        finally:
            stop.request()

    async def report() -> None:
        last: InputReport | None = None
        for turn in itertools.count(1):
            counts = InputReport(tally.found, tally.known, tally.sent, tally.durable, tally.refused)
            if counts != last:
                writer.writelines(framing.encode_frames([CODEC.encode(counts)]))
                await writer.drain()
            last = counts
            await asyncio.sleep(interval)
            if not turn % REPORTS_OF_A_PORTION:
                tally.begin_portion()

    tasks = [asyncio.ensure_future(work) for work in (await_end(), report())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        # A node that has died has closed the socket.
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
