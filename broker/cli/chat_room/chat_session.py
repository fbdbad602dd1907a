"""One client in one room: it feeds the model, and publishes texts and presence."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable
from typing import Final, Protocol

from broker.cli.chat_room.message import CHAT, ChatMessage, Presence, stream_of, write_chat
from broker.cli.chat_room.room import PRESENCE_PERIOD, Room, RoomNotice
from broker.cli.chat_room.transcript import Insertion
from broker.client.client import Client
from broker.client.received import Receipt, Start
from broker.client.subscription import Subscription
from broker.errors import BrokerError
from broker.event.site_notice import SiteNotice

#: Seconds without an event after which the history counts as complete.
HISTORY_QUIET: Final = 1.0
#: Seconds for the receipt of the last message.
LEAVE_TIMEOUT: Final = 2.0
_INTERVAL: Final = 0.05


class ChatView(Protocol):
    """Shows what changes in the model, behind the history."""

    def show_history(self) -> None: ...
    def show_line(self, insertion: Insertion) -> None: ...
    def show_notice(self, notice: RoomNotice) -> None: ...
    def show_note(self, text: str) -> None: ...


class ChatSession:
    def __init__(self, client: Client, room: str, author: str, model: Room, view: ChatView) -> None:
        """Raises `BadName` for a room that is no token of a stream name."""
        self._client = client
        self._stream = stream_of(room)
        self._author = author
        self._model = model
        self._view = view
        self._subscription: Subscription | None = None
        self.is_history = True
        """True until the past is in the model."""
        self._newest = 0.0

    @property
    def duplicates(self) -> int:
        """Number of events that came again, and were dropped."""
        return 0 if self._subscription is None else self._subscription.duplicates_dropped

    async def join(self, start: Start) -> None:
        """Subscribe, and tell the others. Raises `NotAllowed` without the rights for both."""
        self._subscription = await self._client.subscribe(
            "/chat",
            self._stream,
            start=start,
            on_gap=lambda gap: self._view.show_note(f"{gap.count} places are gone: {gap.reason}"),
            on_change=lambda _: None,
            on_notice=self._take_notice,
        )
        for warning in self._subscription.warnings:
            self._view.show_note(warning)
        await self._publish(presence=Presence.JOINED)
        self._client.on_state = self._note_state

    async def read(self) -> None:
        """Read until the subscription ends. Raises its error."""
        assert self._subscription is not None
        self._newest = time.monotonic()
        async with _in_background(self._end_history(self._subscription), self._show_presence()):
            async for event in self._subscription:
                self._newest = time.monotonic()
                insertion = self._model.add_event(event, now_ms())
                if insertion is not None:
                    self._show(insertion)

    def _show(self, insertion: Insertion) -> None:
        settled = self._model.add_own(insertion.line)
        if not self.is_history:
            self._view.show_line(insertion)
            for each in settled:
                self._view.show_notice(each)

    def say(self, text: str) -> Awaitable[Receipt]:
        """Resolve when the text is durable at the site.

        Raises ValueError for an impossible text, `Overloaded` or `Closed`. The result may fail with
        `NotAllowed` or `ClearanceTooLow`.
        """
        return self._publish(text)

    async def leave(self) -> None:
        self._client.on_state = None
        if self._client.connected:
            with contextlib.suppress(BrokerError, TimeoutError):
                await asyncio.wait_for(self._publish(presence=Presence.LEFT), LEAVE_TIMEOUT)
        if self._subscription is not None:
            self._subscription.unsubscribe()

    def _publish(self, text: str = "", presence: Presence | None = None) -> Awaitable[Receipt]:
        payload = write_chat(ChatMessage(self._author, text, presence))
        return self._client.publish(self._stream, payload, CHAT)

    def _take_notice(self, notice: SiteNotice) -> None:
        for each in self._model.add_notice(notice):
            if not self.is_history:
                self._view.show_notice(each)

    async def _end_history(self, subscription: Subscription) -> None:
        """Wait until all events of the past are in the model, then show them at once."""
        cut = subscription.cut
        while not subscription.position.merged(cut) == subscription.position:
            if time.monotonic() - self._newest > HISTORY_QUIET:
                break
            await asyncio.sleep(_INTERVAL)
        self.is_history = False
        self._view.show_history()

    async def _show_presence(self) -> None:
        while True:
            await asyncio.sleep(PRESENCE_PERIOD)
            with contextlib.suppress(BrokerError):
                await self._publish(presence=Presence.PRESENT)

    def _note_state(self, is_connected: bool, error: BrokerError | None) -> None:
        if is_connected:
            self._view.show_note("connected to the node again")
        else:
            reason = f": {error}" if error is not None else ""
            self._view.show_note(f"no connection to the node{reason}; texts wait here")


@contextlib.asynccontextmanager
async def _in_background(*works: Awaitable[None]) -> AsyncIterator[None]:
    """Run works until the end of the block."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def now_ms() -> int:
    return time.time_ns() // 1_000_000
