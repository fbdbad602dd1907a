"""Parameters of a subscription, as the user requested it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import attrs

from broker.client.received import NEW, Start
from broker.errors import BadName, BadPosition, BadQuery, BadQueuePolicy
from broker.event.envelope import event_time_problem
from broker.event.event_time import ANY_TIME, EventTimes, is_empty_range
from broker.event.place import Position
from broker.wire.messages import MAX_CONTROL

#: The rest of the message is for positions.
MAX_TEXT_BYTES = MAX_CONTROL - 64 * 1024


@attrs.frozen
class SubscriptionRequest:
    """The original request of a subscription, wherever it continues (Q3, N4, N5)."""

    query: str = "true()"
    pattern: str = ">"
    namespaces: Mapping[str, str] = attrs.field(factory=dict)
    durable: str = ""
    start: Start = NEW
    until: Position = Position()
    """It ends when everything up to here was delivered; empty: no such end."""
    until_ms: int = 0
    """It ends before events that arrived at or after this time (ms since 1970); 0: no such end."""
    pace: float = 0.0
    """Factor of the pace at which recovered events first arrived; 0: as fast as possible."""
    rate: int = 0
    """Recovered events a second at most; 0: no bound."""
    event_times: EventTimes = ANY_TIME
    """Only events with own times in this range."""
    paced_by_time: bool = False
    """True if the pace is that of the events' own times."""
    stream_times: bool = False
    queue: str = ""
    """Policy of its queue at the node; empty: the node's default."""

    def validate(self) -> SubscriptionRequest:
        """Return the request itself. Raises `BadQuery`, `BadName`, `BadQueuePolicy` or
        `BadPosition`.

        A node ends each session of a client that sends an invalid message.
        """
        self._validate_texts()
        if not 0.0 <= self.pace < math.inf:
            raise BadPosition(f"pace {self.pace} is not a number of 0 or more")
        start = self.start
        counts = {
            "rate": self.rate,
            "until_time": self.until_ms,
            "a time to begin": start.time_ms,
            "how many of the last": start.last,
        }
        for name, count in counts.items():
            if not 0 <= count < 1 << 64:
                raise BadPosition(f"{name} can not be {count}")
        for time in self.event_times:
            if problem := event_time_problem(time):
                raise BadPosition(problem)
        if is_empty_range(self.event_times):
            raise BadPosition("the range of the events' own times is empty")
        if start.kind == "last" and not start.last:
            raise BadPosition("the last 0 events are no start: give 1 or more")
        return self

    def _validate_texts(self) -> None:
        length = 0
        for text, error in (
            (self.query, BadQuery),
            *((text, BadQuery) for binding in self.namespaces.items() for text in binding),
            (self.pattern, BadName),
            (self.durable, BadName),
            (self.queue, BadQueuePolicy),
        ):
            if not isinstance(text, str):
                raise error(f"{text!r:.80} is not a text")
            try:
                length += len(text.encode())
            except UnicodeEncodeError as problem:
                raise error(f"{text!r:.80} is not valid text: {problem.reason}") from None
        if length > MAX_TEXT_BYTES:
            raise BadQuery(f"the query and its names have {length} bytes, at most {MAX_TEXT_BYTES}")
