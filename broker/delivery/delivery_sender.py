"""Deliveries to one session, each with the place of the event before (D30, DESIGN 1)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Protocol

from broker.delivery.commit_share import RecipientRun
from broker.event.envelope import Liveness
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import Message
from broker.wire.event_batch import EncodedEvents, encode_delivery
from broker.wire.messages import ORDER_VERSION, STATE_VERSION

_number = attrgetter("number")


class SessionWriter(Protocol):
    """A session's output."""

    @property
    def writable(self) -> bool: ...
    @property
    def version(self) -> int:
        """Of the session protocol."""

    def send_message(self, message: Message) -> None: ...
    def send_delivery(self, data: bytes) -> None: ...


class DeliverySender:
    def __init__(self, outlet: SessionWriter) -> None:
        self.writer = outlet
        self._previous: tuple[str, int, int] | None = None

    def send_delivery(
        self,
        encoded: EncodedEvents,
        events: Sequence[LoggedEvent],
        runs: Sequence[RecipientRun],
        liveness: Liveness,
    ) -> None:
        done = 0
        numbered = []
        for count, feeds in runs:
            done += count
            newest = events[done - 1]
            for feed in feeds:
                feed.outcomes.delivered += count
                if feed.held_patterns:
                    feed.note_held_back(events[done - count : done])
                if feed.is_active:
                    # Before that, the client does not take the place as a position; a later
                    # Progress moves it.
                    feed.reported_marks[newest.origin] = (newest.epoch, newest.offset)
            numbered.append((count, list(map(_number, feeds))))
        if encoded.with_state is not None and self.writer.version >= STATE_VERSION:
            encoded = encoded.with_state
        elif encoded.with_order is not None and self.writer.version >= ORDER_VERSION:
            encoded = encoded.with_order
        self.writer.send_delivery(encode_delivery(encoded, numbered, liveness, self._previous))
        last = events[-1]
        self._previous = (last.origin, last.epoch, last.offset)
