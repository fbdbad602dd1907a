"""Events inside a merge, and its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import attrs

from broker.event.envelope import Bundle, EventLinkage
from broker.event.event_id import EventId
from broker.event.merging.vocabulary import Rule

T = TypeVar("T")

#: A total order: rank in the declared order, time stamp, ClientId, incarnation, sequence number.
SortKey: TypeAlias = tuple[int, int, str, int, int]
#: A bundle is a part of its stream (M31).
BundleKey: TypeAlias = tuple[str, str]


class LinkedEvent(NamedTuple, Generic[T]):
    """Input of a merge; `item` is the caller's."""

    item: T
    stream: str
    event_id: EventId
    linkage: EventLinkage
    size: int
    origin: str = ""


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
        """Ms since 1970."""
        return self.linked.event_id.timestamp

    @property
    def bundle_keys(self) -> list[BundleKey]:
        return [(self.linked.stream, bundle.bundle_id) for bundle in self.bundles]


@attrs.frozen
class ReleasedEvent(Generic[T]):
    """Output of a merge: an event."""

    item: T
    late: bool = False
    """An event behind it in the resolved order was released before it."""


@attrs.frozen
class MissingNumbers:
    """Missing numbers of a bundle; they may come late."""

    stream: str
    bundle_id: str
    first: int
    last: int


@attrs.frozen
class UnknownWord:
    """Unknown TimeConstraint or MergeScheme; reported once per word."""

    word: str


MergeOutput: TypeAlias = ReleasedEvent[T] | MissingNumbers | UnknownWord


def sort_key(rule: Rule, event_id: EventId, lanes: Sequence[int]) -> SortKey:
    """Return the sort key; without a lane the event comes last."""
    return (
        min(lanes, default=len(rule.order)),
        event_id.timestamp,
        event_id.client_id,
        event_id.incarnation,
        event_id.sequence_number,
    )
