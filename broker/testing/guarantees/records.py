"""Records of a run: events, deliveries, gaps and violations."""

from __future__ import annotations

import enum
import hashlib
from typing import Any, NamedTuple

import attrs

from broker.event.event_id import EventId
from broker.event.flow import origin_of
from broker.event.place import Mark, Place


class Guarantee(enum.Enum):
    """Guarantees, with their numbers in `docs/guarantees.md`."""

    DURABILITY = 1
    AT_LEAST_ONCE = 2
    ONCE = 3
    ORDER = 4
    BYTES = 5
    GAPS = 6
    TYPES = 7
    CLEARANCE = 8

    def __str__(self) -> str:
        return f"guarantee {self.value} ({self.name.lower().replace('_', '-')})"


class Kind(enum.Enum):
    TRANSIENT = "transient"
    DURABLE = "durable"
    POSITIONS = "positions at the client"
    WORKING = "working"
    FROM_ALL = "from all that there is"


class End(enum.Enum):
    RUNNING = "running"
    CLOSED = "closed"
    KILLED = "killed"


class EventKey(NamedTuple):
    """Identity of an event without its timestamp."""

    client_id: str
    incarnation: int
    number: int

    @classmethod
    def of(cls, event_id: EventId) -> EventKey:
        return cls(event_id.client_id, event_id.incarnation, event_id.sequence_number)

    def __str__(self) -> str:
        return f"{self.client_id}/{self.incarnation}/{self.number}"


def digest_of(document: bytes) -> str:
    return hashlib.blake2b(document, digest_size=8).hexdigest()


@attrs.frozen
class Published:
    """An event from its publisher."""

    key: EventKey
    stream: str
    type: str
    """Name and version, such as `flight 1.0`."""
    level: int
    """Rank."""
    digest: str = ""
    """Of the bytes; empty if unknown."""
    value: Any = None
    """Part of the payload for the `matches` function of subscribers."""
    at: float = 0.0


@attrs.frozen
class Acknowledged:
    durability: str
    """`node` or `neighbour`."""
    at: float = 0.0


@attrs.frozen
class Delivered:
    """An event delivered to a user."""

    key: EventKey
    place: Place
    stream: str = ""
    type: str = ""
    level: int = 0
    digest: str = ""
    liveness: str = ""
    at: float = 0.0
    handled: bool = True
    """False if the user's code did not finish with it."""


@attrs.frozen
class ReportedGap:
    """Bounds are inclusive."""

    origin: str
    first: Mark
    last: Mark
    count: int
    reason: str
    at: float = 0.0

    def contains(self, place: Place) -> bool:
        return place.origin == self.origin and self.first <= place.mark <= self.last

    def contains_logged(self, place: Place) -> bool:
        """`place` is of a receipt or a log, and names the origin without the flow."""
        same = place.origin in (self.origin, origin_of(self.origin))
        return same and self.first <= place.mark <= self.last


@attrs.frozen
class Violation:
    guarantee: Guarantee
    subscriber: str
    text: str
    key: EventKey | None = None

    def __str__(self) -> str:
        about = f" {self.key}" if self.key is not None else ""
        return f"{self.guarantee}: {self.subscriber}:{about} {self.text}"
