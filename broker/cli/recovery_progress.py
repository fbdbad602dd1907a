"""A progress bar of a replay: what its node says once a second."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final, cast

from broker.cli.terminal import console, note, on_terminal
from broker.errors import BrokerError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from broker.client.client import Client

#: Seconds between two questions.
INTERVAL: Final = 1.0
#: Seconds that a node has for an answer.
LONGEST_WAIT: Final = 5.0
_STAGES: Final = {
    "log": "this node's log",
    "former": "the node where the client was",
    "logs": "logs of nodes",
    "archive": "the archive",
    "cut off": "waiting for nodes that can not be reached",
}


def stage_of(recovery: Mapping[str, Any]) -> str:
    """Where a recovery looks now, for people."""
    stage = str(recovery.get("stage"))
    text = _STAGES.get(stage, "finishing")
    if stage == "archive" and not recovery.get("of"):
        # Spark takes seconds to start, and a job waits for others to join it.
        text += ": its search is starting"
    return text


class Bar:
    """Where a replay is, for people."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("beginning", total=None, events="")

    def show(self, recovery: Mapping[str, Any]) -> None:
        """What the node says of it now."""
        text = stage_of(recovery)
        looked_at, of = recovery.get("looked_at", 0), recovery.get("of", 0)
        searching = recovery.get("stage") == "archive" and of
        if searching:
            text += f": {looked_at:,} of {of:,} rows looked at"
        self._progress.update(
            self._task,
            description=text,
            completed=looked_at if searching else 0,
            total=of if searching else None,
            events=f"{recovery.get('events', 0):,} events",
        )


class _Above:
    """Writes what is printed above the bar, where both are on one terminal."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    def write(self, data: bytes) -> None:
        if data:
            self._screen.out(bytes(data).decode(errors="replace"), end="", highlight=False)

    def flush(self) -> None:
        """It is written at once."""

    def fileno(self) -> int:
        return sys.stdout.fileno()


@contextlib.contextmanager
def bar() -> Iterator[tuple[Bar | None, IO[bytes]]]:
    """A bar if somebody can see it, and where to print."""
    if not (on_terminal() or sys.stderr.isatty()):
        yield None, sys.stdout.buffer
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    screen = console(err=not on_terminal())
    progress = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[events]}", markup=False),
        console=screen,
        transient=True,
    )
    with progress:
        out = cast(IO[bytes], _Above(screen)) if on_terminal() else sys.stdout.buffer
        yield Bar(progress), out


@contextlib.asynccontextmanager
async def shown(shows: Bar | None, client: Client) -> AsyncIterator[None]:
    """Keep the bar up to date meanwhile."""
    asking = None if shows is None else asyncio.ensure_future(_ask(shows, client))
    try:
        yield
    finally:
        if asking is not None:
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking


async def catching_up(client: Client) -> Sequence[Mapping[str, Any]] | None:
    """What the node has still to send of the past; None if it does not answer."""
    try:
        told = await asyncio.wait_for(client.ask("recoveries"), LONGEST_WAIT)
    except TimeoutError:
        # There is no connection at the moment, or the node is busy.
        return None
    except BrokerError:
        # A node of an older version does not know the question.
        return ()
    return cast(Sequence[Mapping[str, Any]], told)


@contextlib.asynccontextmanager
async def noted(client: Client) -> AsyncIterator[None]:
    """Tell on a terminal where the past comes from, until all of it came."""
    telling = asyncio.ensure_future(_note_stages(client)) if sys.stderr.isatty() else None
    try:
        yield
    finally:
        if telling is not None:
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await telling


async def _note_stages(client: Client) -> None:
    before = ""
    await asyncio.sleep(INTERVAL)
    while (recoveries := await catching_up(client)) is None or recoveries:
        text = stage_of(recoveries[0]) if recoveries else before
        if text != before:
            note(f"catching up from {text}")
        before = text
        await asyncio.sleep(INTERVAL)


async def _ask(shows: Bar, client: Client) -> None:
    while True:
        # A node that does not answer, or is of an older version, has no bar, and that is all.
        with contextlib.suppress(BrokerError, TimeoutError):
            for recovery in await asyncio.wait_for(client.ask("recoveries"), INTERVAL):
                shows.show(recovery)
        await asyncio.sleep(INTERVAL)
