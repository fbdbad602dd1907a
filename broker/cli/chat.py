"""`xmlbroker chat`: read and write in a chat room."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Generator
from typing import IO, Final

import click

from broker.cli.chat_room.chat_session import ChatSession, now_ms
from broker.cli.chat_room.message import MAX_TEXT, check_author, stream_of
from broker.cli.chat_room.plain_view import PlainView
from broker.cli.chat_room.room import Room
from broker.cli.failure import failure_of
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.publishing.reader_thread import ReaderThread
from broker.cli.publishing.tally import REFUSALS
from broker.cli.standard_input import open_stdin
from broker.cli.starting_point import parse_start
from broker.cli.stop_signal import Stop, stop_on_signals
from broker.client.received import Receipt, Start, since_time
from broker.errors import BrokerError
from broker.event.event_id import EventId

#: Milliseconds of history without --from.
_HISTORY: Final = 24 * 3_600_000
#: Bytes of a line of input; longer ones are refused.
_MAX_INPUT: Final = 4 * MAX_TEXT + 1
#: Seconds after the end of the input for own texts to come back in their order.
_LAST_TEXTS: Final = 5.0
_INTERVAL: Final = 0.05
_HELP: Final = "/who shows the members, /sites the other sites, /quit leaves; //text begins with /"


def _parse_start(_: click.Context, __: click.Parameter, value: str | None) -> Start | None:
    try:
        return None if value is None else parse_start(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


@click.command()
@click.argument("room")
@click.option(
    "--as", "author", metavar="NAME", help="Your name in the room.  [default: the account's name]"
)
@click.option(
    "--from",
    "start",
    callback=_parse_start,
    metavar="START",
    help="Begin of the history: new, all, or a time (ISO 8601 or ms since 1970).  "
    "[default: 24 hours ago]",
)
@click.option(
    "--lines",
    type=click.IntRange(min=0, max=1_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Show at most so many lines of history.",
)
@click.option("--plain", is_flag=True, help="Write lines, for pipes and screen readers.")
@node_options
def command(
    access: NodeAccess, room: str, author: str | None, start: Start | None, lines: int, plain: bool
) -> None:
    """Chat in ROOM, which is the stream chat.ROOM.

    Each line of the input is a message. Late messages are marked, with the lines between which they
    belong. Messages that do not come are named, and so are sites that can not be reached.
    """
    stream_of(room)
    author = author or access.account
    if not author:
        raise click.UsageError("give a name with --as, or an account")
    name = check_author(author)
    begin = start or since_time(now_ms() - _HISTORY)

    async def run() -> int:
        with stop_on_signals() as stop:
            model = Room()
            view = PlainView(model, sys.stdout.buffer, lines, now_ms, stop.request)
            async with access.session(stop) as client:
                if stop:
                    return 0
                session = ChatSession(client, room, name, model, view)
                await stop.run_or_cancel(session.join(begin))
                if stop:
                    return 0
                try:
                    typing = _PlainInput(session, model, view, stop)
                    return await stop.run_or_cancel(typing.run()) or 0
                finally:
                    await session.leave()

    raise SystemExit(asyncio.run(run()))


class _PlainInput:
    """Publishes lines of stdin while the room is read."""

    def __init__(self, session: ChatSession, room: Room, view: PlainView, stop: Stop) -> None:
        self._session = session
        self._room = room
        self._view = view
        self._stop = stop
        self._receipts: set[asyncio.Future[Receipt]] = set()
        self._own: set[EventId] = set()
        """Own texts that are durable, and not shown yet."""
        self._refused = 0

    async def run(self) -> int:
        """Return the exit status after the end of the input."""
        reading = asyncio.ensure_future(self._session.read())
        typing = asyncio.ensure_future(self._publish_lines())
        try:
            await asyncio.wait({reading, typing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, typing):
                if task.done():
                    task.result()
        finally:
            reading.cancel()
            typing.cancel()
        return 1 if self._refused else 0

    async def _publish_lines(self) -> None:
        lines = ReaderThread(_read_lines(open_stdin()))
        try:
            while portion := await lines.next_items():
                for line in portion:
                    if line == "/quit":
                        return
                    self._handle(line)
        finally:
            lines.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_TEXTS):
                await self._wait_for_own_texts()

    async def _wait_for_own_texts(self) -> None:
        if self._receipts:
            await asyncio.wait(self._receipts)
        while self._session.is_history or any(
            each not in self._room.transcript for each in self._own
        ):
            await asyncio.sleep(_INTERVAL)

    def _handle(self, line: str) -> None:
        if line == "/who":
            self._view.show_members()
        elif line == "/sites":
            self._view.show_statuses()
        elif line.startswith("/") and not line.startswith("//"):
            self._view.show_note(_HELP)
        elif line.strip():
            self._say(line.removeprefix("/") if line.startswith("//") else line)

    def _say(self, text: str) -> None:
        try:
            receipt: asyncio.Future[Receipt] = asyncio.ensure_future(self._session.say(text))
        except (ValueError, BrokerError) as error:
            self._refuse(error)
            return
        self._receipts.add(receipt)
        receipt.add_done_callback(self._settle)

    def _settle(self, receipt: asyncio.Future[Receipt]) -> None:
        self._receipts.discard(receipt)
        if receipt.cancelled():
            return
        error = receipt.exception()
        if isinstance(error, REFUSALS):
            self._refuse(failure_of(error))
        elif error is None:
            self._own.add(receipt.result().event_id)

    def _refuse(self, error: Exception) -> None:
        self._refused += 1
        self._view.show_note(f"not sent: {error}")


def _read_lines(stream: IO[bytes]) -> Generator[str, None, None]:
    while line := stream.readline(_MAX_INPUT):
        yield line.decode("utf-8", "replace").rstrip("\r\n")
