"""`xmlbroker chat`: read and write in a chat room."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Generator, Sequence
from typing import IO, Final

import click

from broker.cli.chat_room.chat_session import ChatSession, now_ms
from broker.cli.chat_room.full_screen import FullScreen, RoomView
from broker.cli.chat_room.line_editor import Key
from broker.cli.chat_room.message import MAX_TEXT, check_author, stream_of
from broker.cli.chat_room.plain_view import PlainView
from broker.cli.chat_room.room import Room
from broker.cli.chat_room.screen import OpenRoom
from broker.cli.chat_room.sender import Sender
from broker.cli.node_access import NodeAccess, node_options
from broker.cli.publishing.reader_thread import ReaderThread
from broker.cli.standard_input import open_stdin
from broker.cli.starting_point import parse_start
from broker.cli.stop_signal import Stop, stop_on_signals
from broker.cli.terminal import is_terminal
from broker.client.client import Client
from broker.client.received import Start, since_time

#: Milliseconds of history without --from.
_HISTORY: Final = 24 * 3_600_000
#: Bytes of a line of input; longer ones are refused.
_MAX_INPUT: Final = 4 * MAX_TEXT + 1
#: Seconds after the end of the input for own texts to come back in their order.
_LAST_TEXTS: Final = 5.0
_INTERVAL: Final = 0.05
_HELP: Final = "/who shows the members, /sites the other sites, /quit leaves; //text begins with /"
_SCREEN_HELP: Final = (
    "Tab: next room; Page Up, Page Down: scroll; /quit leaves; //text begins with /"
)


def _parse_start(_: click.Context, __: click.Parameter, value: str | None) -> Start | None:
    try:
        return None if value is None else parse_start(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from None


@click.command()
@click.argument("rooms", nargs=-1, required=True, metavar="ROOM...")
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
@click.option(
    "--plain",
    is_flag=True,
    help="Write lines, for pipes and screen readers.  [default without a terminal]",
)
@node_options
def command(
    access: NodeAccess,
    rooms: tuple[str, ...],
    author: str | None,
    start: Start | None,
    lines: int,
    plain: bool,
) -> None:
    """Chat in ROOM, which is the stream chat.ROOM; on a terminal in several of them.

    Each line of the input is a message. Late messages are marked, with the lines between which they
    belong. Messages that do not come are named, and so are sites that can not be reached.
    """
    for room in rooms:
        stream_of(room)
    author = author or access.account
    if not author:
        raise click.UsageError("give a name with --as, or an account")
    name = check_author(author)
    begin = start or since_time(now_ms() - _HISTORY)
    is_plain = plain or not (is_terminal() and sys.stdin.isatty())
    if is_plain and len(rooms) > 1:
        raise click.UsageError("lines of several rooms would mix: give one")

    async def run() -> int:
        with stop_on_signals() as stop:
            async with access.session(stop) as client:
                if stop:
                    return 0
                if is_plain:
                    return await _chat_in_lines(client, rooms[0], name, begin, lines, stop)
                return await _chat_on_screen(client, rooms, name, begin, stop)

    raise SystemExit(asyncio.run(run()))


async def _chat_in_lines(
    client: Client, room: str, name: str, begin: Start, lines: int, stop: Stop
) -> int:
    model = Room(own_client=client.client_id)
    view = PlainView(model, sys.stdout.buffer, lines, now_ms, stop.request)
    session = ChatSession(client, room, name, model, view)
    await stop.run_or_cancel(session.join(begin))
    if stop:
        return 0
    try:
        return await stop.run_or_cancel(_PlainInput(session, model, view).run()) or 0
    finally:
        await session.leave()


async def _chat_on_screen(
    client: Client, rooms: Sequence[str], name: str, begin: Start, stop: Stop
) -> int:
    opened = [OpenRoom(room, Room(own_client=client.client_id)) for room in dict.fromkeys(rooms)]

    def handle(typed: str | Key) -> None:
        if typed in (Key.END, "/quit"):
            stop.request()
        elif isinstance(typed, str) and typed.startswith("/") and not typed.startswith("//"):
            screen.show_note(_SCREEN_HELP)
        elif isinstance(typed, str) and typed.strip():
            text = typed.removeprefix("/") if typed.startswith("//") else typed
            sender.say(sessions[screen.screen.active], text)

    screen = FullScreen(opened, handle)
    sender = Sender(screen.show_note)
    sessions = [
        ChatSession(client, each.name, name, each.room, RoomView(each, screen)) for each in opened
    ]
    try:
        for session in sessions:
            await stop.run_or_cancel(session.join(begin))
        if not stop:
            with screen.run():
                await stop.run_or_cancel(_read_all(sessions))
    finally:
        for session in sessions:
            await session.leave()
    return 1 if sender.refused else 0


async def _read_all(sessions: Sequence[ChatSession]) -> None:
    """Read until a subscription ends. Raises its error."""
    readings = [asyncio.ensure_future(session.read()) for session in sessions]
    try:
        done, _ = await asyncio.wait(readings, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    finally:
        for each in readings:
            each.cancel()
        await asyncio.gather(*readings, return_exceptions=True)


class _PlainInput:
    """Publishes lines of stdin while the room is read."""

    def __init__(self, session: ChatSession, room: Room, view: PlainView) -> None:
        self._session = session
        self._room = room
        self._view = view
        self._sender = Sender(view.show_note)

    async def run(self) -> int:
        """Return the exit status after the end of the input."""
        reading = asyncio.ensure_future(_read_all([self._session]))
        typing = asyncio.ensure_future(self._publish_lines())
        try:
            await asyncio.wait({reading, typing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (reading, typing):
                if task.done():
                    task.result()
        finally:
            reading.cancel()
            typing.cancel()
        return 1 if self._sender.refused else 0

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
        if self._sender.waiting:
            await asyncio.wait(self._sender.waiting)
        while self._session.is_history or any(
            each not in self._room.transcript for each in self._sender.durable
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
            self._sender.say(
                self._session, line.removeprefix("/") if line.startswith("//") else line
            )


def _read_lines(stream: IO[bytes]) -> Generator[str, None, None]:
    while line := stream.readline(_MAX_INPUT):
        yield line.decode("utf-8", "replace").rstrip("\r\n")
