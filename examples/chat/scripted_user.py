"""A user at a site who talks by a script, and the record of this user's screen."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import string
import time
from collections.abc import AsyncIterator
from typing import Final

from broker.cli.chat_room.chat_session import ChatSession
from broker.cli.chat_room.message import MAX_TEXT
from broker.cli.chat_room.room import Room, RoomNotice
from broker.cli.chat_room.transcript import ChatLine, Insertion
from broker.client.asyncio_face import connect
from broker.client.received import ALL, Receipt
from broker.event.event_id import EventId
from broker.event.order_entry import MessageId
from broker.event.site_notice import MissingMessages, SiteStatus
from examples.chat.sites import START

ROOM: Final = "ops"
#: Seconds between two texts of a user.
PERIOD: Final = 0.5
_MOST_LINES: Final = 20_000
_WORDS: Final = ("runway", "tanker", "convoy", "weather", "bridge", "fuel", "radio", "north gate")


class Screen:
    """A view that counts what a person sees, and checks the promises for each line."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.in_time = 0
        self.late: list[Insertion] = []
        self.missing: list[MissingMessages] = []
        self.violations: list[str] = []
        self.notes: list[str] = []
        self.statuses: list[tuple[float, SiteStatus]] = []
        """With the monotonic time of each."""
        self._highest: ChatLine | None = None
        self._lines: dict[MessageId, ChatLine] = {}

    def show_history(self) -> None:
        # It is sorted: late lines are in front of those that came before them.
        for line in self._room.transcript.messages:
            self._count_line(Insertion(line, None, None), is_sorted=True)
        for status in self._room.statuses.values():
            self.statuses.append((time.monotonic(), status))

    def show_line(self, insertion: Insertion) -> None:
        self._count_line(insertion)

    def show_notice(self, notice: RoomNotice) -> None:
        if isinstance(notice, SiteStatus):
            self.statuses.append((time.monotonic(), notice))
        elif isinstance(notice, MissingMessages):
            self.missing.append(notice)

    def show_note(self, text: str) -> None:
        self.notes.append(text)

    def last_status(self, site: str) -> str:
        found = [status.state for _, status in self.statuses if status.site == site]
        return found[-1] if found else ""

    def has_shown(self, site: str, state: str, after: float) -> bool:
        """Return true if a site has had a state at a monotonic time, or later."""
        found = ""
        for at, status in self.statuses:
            if status.site == site:
                if at >= after and found == state:
                    return True
                found = status.state
        return found == state

    def _count_line(self, insertion: Insertion, *, is_sorted: bool = False) -> None:
        line = insertion.line
        if line.order is None or line.order.stamp is None:
            self.violations.append(f"{line.event_id} has no stamp")
            return
        is_behind = self._highest is not None and line.key < self._highest.key
        if line.is_late != is_behind and not is_sorted:
            self.violations.append(f"{line.order} is {'not ' if is_behind else ''}marked as late")
        self._lines[line.order.id] = line
        if line.is_late:
            self.late.append(insertion)
            before, after = map(self._find_line, (line.order.before, line.order.after))
            if (before and before.key > line.key) or (after and after.key < line.key):
                self.violations.append(f"{line.order} is not between its neighbours")
        else:
            self.in_time += 1
        if not is_behind:
            self._highest = line

    def _find_line(self, id: MessageId | None) -> ChatLine | None:
        """Return none for a message without a line, too."""
        return None if id is None else self._lines.get(id)


class ScriptedUser:
    def __init__(self, name: str, site: str, endpoint: str, seed: int) -> None:
        self.name = name
        self.site = site
        self.room = Room(_MOST_LINES)
        self.screen = Screen(self.room)
        self.sent: list[EventId] = []
        """Durable at the site."""
        self.errors: list[BaseException] = []
        self._endpoint = endpoint
        self._random = random.Random(seed)
        self._texts = itertools.count(1)
        self._waiting: set[asyncio.Future[Receipt]] = set()
        self._session: ChatSession | None = None

    @contextlib.asynccontextmanager
    async def join(self) -> AsyncIterator[None]:
        async with connect(self._endpoint, client_id=self.name) as client:
            await client.when_connected(START)
            self._session = ChatSession(client, ROOM, self.name, self.room, self.screen)
            await self._session.join(ALL)
            reading = asyncio.create_task(self._session.read())
            try:
                yield
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def talk(self) -> None:
        """Send texts until cancelled."""
        await asyncio.sleep(self._random.random() * PERIOD)
        while True:
            subject = self._random.choice(_WORDS)
            self.say(f"{next(self._texts)}: news of the {subject}")
            await asyncio.sleep(PERIOD)

    def paste(self) -> None:
        """Send a long text that does not compress."""
        letters = string.ascii_letters + string.digits
        head = f"{next(self._texts)}: a report "
        self.say(head + "".join(self._random.choices(letters, k=MAX_TEXT - len(head))))

    def say(self, text: str) -> None:
        assert self._session is not None
        receipt = asyncio.ensure_future(self._session.say(text))
        self._waiting.add(receipt)
        receipt.add_done_callback(self._settle)

    async def wait_for_receipts(self) -> None:
        if self._waiting:
            await asyncio.wait(self._waiting)

    @property
    def ids(self) -> dict[EventId, MessageId]:
        """Shown messages, with their ids in the group."""
        lines = self.room.transcript.messages
        return {line.event_id: line.order.id for line in lines if line.order is not None}

    @property
    def repeated(self) -> int:
        """Messages that came twice, dropped by the client or not."""
        found = self.room.transcript.repeated
        return found + (0 if self._session is None else self._session.duplicates)

    def _settle(self, receipt: asyncio.Future[Receipt]) -> None:
        self._waiting.discard(receipt)
        if receipt.cancelled():
            return
        error = receipt.exception()
        if error is None:
            self.sent.append(receipt.result().event_id)
        else:
            self.errors.append(error)
