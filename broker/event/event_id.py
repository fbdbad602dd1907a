"""EventIds: identity for de-duplication, nothing else (Mspaces M21-M25, DESIGN 1)."""

from __future__ import annotations

from typing import NamedTuple

import attrs


class EventId(NamedTuple):
    """Identity of an event for de-duplication (Mspaces M21-M25, DESIGN 1).

    A tuple, because each hop makes one per event. `sequence_number` counts from 1 without gaps per
    (`client_id`, `incarnation`) over all streams. `timestamp` is milliseconds since 1970 and never
    falls within an incarnation.
    """

    client_id: str
    timestamp: int
    sequence_number: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.client_id}/{self.incarnation}/{self.sequence_number}@{self.timestamp}"


@attrs.define
class EventIdGenerator:
    """EventIds of one incarnation (T18).

    The timestamp stays if the clock steps back.
    """

    client_id: str
    incarnation: int
    last_timestamp: int = 0
    last_sequence_number: int = 0

    def next_id(self, wall_clock: int) -> EventId:
        """`wall_clock` is milliseconds since 1970."""
        self.last_timestamp = max(self.last_timestamp, wall_clock)
        self.last_sequence_number += 1
        return EventId(
            self.client_id, self.last_timestamp, self.last_sequence_number, self.incarnation
        )

    def return_id(self, event_id: EventId) -> None:
        """Free the number of the newest, unused id. Raises ValueError for an older one."""
        if event_id.sequence_number != self.last_sequence_number:
            raise ValueError("only the newest id can be returned")
        self.last_sequence_number -= 1


def parse_identity(text: str) -> tuple[str, int, int]:
    """Return ClientId, incarnation and sequence number of an EventId as text.

    The time stamp may be left out. Raises ValueError.
    """
    client_id, incarnation, number = text.partition("@")[0].split("/")
    return client_id, int(incarnation), int(number)


def parse_event_id(text: str) -> EventId:
    """Return an EventId from its text, with the time stamp. Raises ValueError."""
    client_id, incarnation, number = parse_identity(text)
    return EventId(client_id, int(text.partition("@")[2]), number, incarnation)


def next_incarnation(last: int, wall_clock_us: int) -> int:
    """Return the incarnation of a new process: above `last` whatever the clock says.

    It is microseconds since 1970 for a `last` of 0, so it rises without a state file too. If two
    processes start in one microsecond, the node rejects the second.
    """
    return max(last + 1, wall_clock_us)
