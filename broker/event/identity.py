"""EventId: identity, for de-duplication and nothing else (Mspaces M21-M25, DESIGN 1)."""

from __future__ import annotations

from typing import NamedTuple

import attrs


class EventId(NamedTuple):
    """Unique in space and time. A tuple, because one is made per event at every hop.

    `sequence_number` counts from 1 without holes per (`client_id`, `incarnation`) over all
    streams; `timestamp` is milliseconds since 1970 and never falls within an incarnation.
    """

    client_id: str
    timestamp: int
    sequence_number: int
    incarnation: int

    def __str__(self) -> str:
        return f"{self.client_id}/{self.incarnation}/{self.sequence_number}@{self.timestamp}"


@attrs.define
class Mint:
    """Makes the EventIds of one incarnation of one client (T18).

    A clock that steps back does not make a timestamp fall, and a clock that stands still does not
    repeat an id: the sequence number alone tells two ids of an incarnation apart.
    """

    client_id: str
    incarnation: int
    last_timestamp: int = 0
    last_sequence_number: int = 0

    def next(self, wall_clock: int) -> EventId:
        """The next id; `wall_clock` is milliseconds since 1970, as the clock says now."""
        self.last_timestamp = max(self.last_timestamp, wall_clock)
        self.last_sequence_number += 1
        return EventId(
            self.client_id, self.last_timestamp, self.last_sequence_number, self.incarnation
        )

    def take_back(self, event_id: EventId) -> None:
        """The newest id was not used after all: its number is free again."""
        if event_id.sequence_number != self.last_sequence_number:
            raise ValueError("only the newest id can be taken back")
        self.last_sequence_number -= 1


def next_incarnation(last: int, wall_clock_us: int) -> int:
    """The incarnation of a new process: above `last` whatever the clock says.

    Microseconds since 1970 where nothing is remembered (`last` 0), so that a client without a
    state file rises too; two processes that start in one microsecond are told apart by the node,
    which refuses the second.
    """
    return max(last + 1, wall_clock_us)
