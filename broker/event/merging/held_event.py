"""Events inside a merge, and its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import attrs

from broker.event.envelope import Bundle, EventLinkage
from broker.event.event_id import EventId
from broker.event.merging.vocabulary import Rule

T = TypeVar("T")

#: Sort key of concurrent events, total for every set of events: rank in the declared order, time
#: stamp, ClientId, incarnation, sequence number.
SortKey: TypeAlias = tuple[int, int, str, int, int]
#: A bundle is a part of its stream (M31), so two streams may use one BundleId.
BundleKey: TypeAlias = tuple[str, str]


class LinkedEvent(NamedTuple, Generic[T]):
    """Input of a merge: an event's linkage, and the caller's `item`."""

    item: T
    stream: str
    event_id: EventId
    linkage: EventLinkage
    size: int
    """Bytes that count while it is held."""
    origin: str = ""
    """The origin log of the event."""


@attrs.define(eq=False)
class HeldEvent(Generic[T]):
    serial: int
    """Counts arrivals."""
    linked: LinkedEvent[T]
    bundles: tuple[Bundle, ...]
    rule: Rule | None
    key: SortKey
    deadline: float
    """Seconds; the event is released by then even if others are missing."""
    is_released: bool = False
    late: bool = False
    """An event behind it in the resolved order was released before it."""

    @property
    def time(self) -> int:
        """Time stamp, ms since 1970."""
        return self.linked.event_id.timestamp

    @property
    def bundle_keys(self) -> list[BundleKey]:
        return [(self.linked.stream, bundle.bundle_id) for bundle in self.bundles]


@attrs.frozen
class ReleasedEvent(Generic[T]):
    """Output: an event."""

    item: T
    late: bool = False
    """An event behind it in the resolved order was released before it."""


@attrs.frozen
class MissingNumbers:
    """Output: a bundle's numbers `first` to `last` did not arrive in time. They may still come,
    late."""

    stream: str
    bundle_id: str
    first: int
    last: int


@attrs.frozen
class UnknownWord:
    """Output: an unknown TimeConstraint or MergeScheme; reported once per word."""

    word: str


MergeOutput: TypeAlias = ReleasedEvent[T] | MissingNumbers | UnknownWord


def sort_key(rule: Rule, event_id: EventId, lanes: Sequence[int]) -> SortKey:
    """Return the sort key of an event in `lanes`; an event without a lane comes last."""
    return (
        min(lanes, default=len(rule.order)),
        event_id.timestamp,
        event_id.client_id,
        event_id.incarnation,
        event_id.sequence_number,
    )
