"""Positions of durable subscriptions that a client process leaves to the next one.

They go two ways: into the client's own file, where it has a state folder, and to the node. A
position counts as handed over when the node has confirmed that it is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker.client.effects import Effect, Keep, Left
from broker.client.following import Following
from broker.event.place import Position
from broker.wire import fields
from broker.wire.messages import Ask

#: The question whose answer names the committed position of each durable subscription.
POSITIONS: Final = "durable-positions"
#: Seconds until the question is repeated, while the node stores less than it was told.
ASK_AGAIN: Final = 0.5


class Leaving:
    """What one process knows of its client's durable subscriptions, by their names."""

    def __init__(self, left: Mapping[str, Left]) -> None:
        """`left` is what the previous process wrote."""
        self._left = dict(left)
        self.unconfirmed: dict[str, Position] = {}
        """Positions that moved in this process; the node has not confirmed them yet."""
        self._asked: dict[int, Mapping[str, Position]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def of(self, name: str) -> Left:
        """Where a subscription was left; an empty position if that is not known."""
        return self._left.get(name, Left(Position()))

    def processed(self, following: Following) -> None:
        """Note that the position of a durable subscription moved."""
        self.unconfirmed[following.wish.durable] = following.processed

    def leave(self, following: Following) -> None:
        """Note the present position of a subscription for the next process."""
        name = following.wish.durable
        if name and following.processed.marks:
            node = following.former or self.of(name).node
            self._left[name] = Left(following.processed, node)

    def forget(self, name: str) -> None:
        """Drop a subscription that is over for good."""
        self._left.pop(name, None)
        self.unconfirmed.pop(name, None)

    def keep(self) -> list[Effect]:
        """Have everything written to the client's file."""
        return [Keep(dict(self._left))]

    def ask(self, request: int) -> Ask:
        """The question whether the node has committed the unconfirmed positions."""
        self._asked[request] = dict(self.unconfirmed)
        return Ask(request, POSITIONS, {})

    def is_answer(self, request: int) -> bool:
        """Whether a request number is that of such a question."""
        return request in self._asked

    def answered(self, request: int, content: Any) -> None:
        """Take the node's answer: the committed positions by name. Malformed ones count as none."""
        asked = self._asked.pop(request)
        for name, position in asked.items():
            if self.unconfirmed.get(name) == position and _covers(content, name, position):
                del self.unconfirmed[name]


def _covers(content: Any, name: str, position: Position) -> bool:
    try:
        stored = Position.from_wire(fields.position(content[name])).marks
    except (ValueError, TypeError, LookupError):
        return False
    return all(stored.get(origin, (0, 0)) >= mark for origin, mark in position.marks.items())
