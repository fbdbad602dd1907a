"""Publication of typed texts: their receipts and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.cli.chat_room.chat_session import ChatSession
from broker.cli.failure import failure_of
from broker.cli.publishing.tally import REFUSALS
from broker.client.received import Receipt
from broker.errors import BrokerError
from broker.event.event_id import EventId


class Sender:
    def __init__(self, show_note: Callable[[str], None]) -> None:
        self._show_note = show_note
        self.refused = 0
        self.waiting: set[asyncio.Future[Receipt]] = set()
        self.durable: set[EventId] = set()

    def say(self, session: ChatSession, text: str) -> None:
        """Send a text; what is refused is shown as a note."""
        try:
            receipt: asyncio.Future[Receipt] = asyncio.ensure_future(session.say(text))
        except (ValueError, BrokerError) as error:
            self._refuse(error)
            return
        self.waiting.add(receipt)
        receipt.add_done_callback(self._settle)

    def _settle(self, receipt: asyncio.Future[Receipt]) -> None:
        self.waiting.discard(receipt)
        if receipt.cancelled():
            return
        error = receipt.exception()
        if isinstance(error, REFUSALS):
            self._refuse(failure_of(error))
        elif error is None:
            self.durable.add(receipt.result().event_id)

    def _refuse(self, error: Exception) -> None:
        self.refused += 1
        self._show_note(f"not sent: {error}")
