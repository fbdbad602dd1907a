"""Notices about messages that move, several in one."""

from __future__ import annotations

from collections.abc import Callable

from broker.event.site_notice import MOST_MOVES, MovedMessage, MovedMessages
from broker.transport.clock import IClock
from broker.transport.order import MessageId, Place, Stamp


class MoveNotices:
    """Joins the moves of one turn of the reactor. A takeover may move thousands of messages."""

    def __init__(
        self, stack: str, clock: IClock, notify: Callable[[MovedMessages], object]
    ) -> None:
        self._stack = stack
        self._clock = clock
        self._notify = notify
        self._moves: list[MovedMessage] = []

    def add_move(self, id: MessageId, stamp: Stamp, late: Place | None) -> None:
        if not self._moves:
            self._clock.callLater(0.0, self._flush)
        before, after = (None, None) if late is None else (late.before, late.after)
        self._moves.append(MovedMessage(*id, *stamp, late is not None, before, after))

    def _flush(self) -> None:
        moves, self._moves = self._moves, []
        for begin in range(0, len(moves), MOST_MOVES):
            self._notify(MovedMessages(self._stack, tuple(moves[begin : begin + MOST_MOVES])))
