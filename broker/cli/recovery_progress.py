"""Progress of a replay, asked once a second."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, cast

from broker.cli.terminal import is_terminal, make_console, print_note
from broker.errors import BrokerError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from broker.client.client import Client

INTERVAL: Final = 1.0
#: Seconds for the node's answer.
ANSWER_TIMEOUT: Final = 5.0
_STAGES: Final = {
    "log": "this node's log",
    "former": "the client's previous node",
    "logs": "logs of other nodes",
    "archive": "the archive",
    "cut off": "waiting for unreachable nodes",
}


def describe_stage(recovery: Mapping[str, Any]) -> str:
    stage = str(recovery.get("stage"))
    text = _STAGES.get(stage, "finishing")
    if stage == "archive" and not recovery.get("of"):
        # Spark takes seconds to start, and a job waits for others.
        text += ": its search is starting"
    return text


class ProgressBar:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("beginning", total=None, events="")

    def show(self, recovery: Mapping[str, Any]) -> None:
        text = describe_stage(recovery)
        looked_at, of = recovery.get("looked_at", 0), recovery.get("of", 0)
        searching = recovery.get("stage") == "archive" and of
        if searching:
            text += f": {looked_at:,} of {of:,} rows read"
        self._progress.update(
            self._task,
            description=text,
            completed=looked_at if searching else 0,
            total=of if searching else None,
            events=f"{recovery.get('events', 0):,} events",
        )


class _ConsoleOutput:
    """Writes output above the bar if both are on one terminal."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    def write(self, data: bytes) -> None:
        if data:
            self._screen.out(bytes(data).decode(errors="replace"), end="", highlight=False)

    def flush(self) -> None:
        """Output is written at once."""

    def fileno(self) -> int:
        return sys.stdout.fileno()


@contextlib.contextmanager
def progress_bar() -> Iterator[tuple[ProgressBar | None, IO[bytes]]]:
    """Yield a bar for a terminal, and the stream for output."""
    if not (is_terminal() or sys.stderr.isatty()):
        yield None, sys.stdout.buffer
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    screen = make_console(err=not is_terminal())
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[events]}", markup=False),
        console=screen,
        transient=True,
    )
    with progress:
        out = cast(IO[bytes], _ConsoleOutput(screen)) if is_terminal() else sys.stdout.buffer
        yield ProgressBar(progress), out


@contextlib.asynccontextmanager
async def update_progress(bar: ProgressBar | None, client: Client) -> AsyncIterator[None]:
    task = None if bar is None else asyncio.ensure_future(_poll_progress(bar, client))
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def ask_recoveries(client: Client) -> Sequence[Mapping[str, Any]] | None:
    """Return None without an answer."""
    try:
        answer = await asyncio.wait_for(client.ask("recoveries"), ANSWER_TIMEOUT)
    except TimeoutError:
        # No connection, or a busy node.
        return None
    except BrokerError:
        # An older node rejects the request.
        return ()
    return cast(Sequence[Mapping[str, Any]], answer)


@contextlib.asynccontextmanager
async def note_stages(client: Client) -> AsyncIterator[None]:
    task = asyncio.ensure_future(_note_stages(client)) if sys.stderr.isatty() else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _note_stages(client: Client) -> None:
    before = ""
    await asyncio.sleep(INTERVAL)
    while (recoveries := await ask_recoveries(client)) is None or recoveries:
        text = describe_stage(recoveries[0]) if recoveries else before
        if text != before:
            print_note(f"catching up from {text}")
        before = text
        await asyncio.sleep(INTERVAL)


async def _poll_progress(bar: ProgressBar, client: Client) -> None:
    while True:
        # Without an answer only the bar is missing.
        with contextlib.suppress(BrokerError, TimeoutError):
            for recovery in await asyncio.wait_for(client.ask("recoveries"), INTERVAL):
                bar.show(recovery)
        await asyncio.sleep(INTERVAL)
