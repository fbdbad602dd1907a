"""Events on their way through a merge, and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import attrs

from broker.event.envelope import Bundle, EventLinkage
from broker.event.identity import EventId
from broker.event.merging.vocabulary import Rule

T = TypeVar("T")

#: What puts concurrent events in order, for every set of events the same: rank in the declared
#: order, time stamp, ClientId, incarnation, sequence number.
Key: TypeAlias = tuple[int, int, str, int, int]
#: A bundle is a part of its stream (M31), so two streams may use one BundleId.
BundleKey: TypeAlias = tuple[str, str]


class Linked(NamedTuple, Generic[T]):
    """An event as a merge sees it; `item` is whatever shall come out again."""

    item: T
    stream: str
    event_id: EventId
    linkage: EventLinkage
    size: int
    """Bytes that it takes while it is held."""
    origin: str = ""
    """The log that it came from."""


@attrs.define(eq=False)
class Held(Generic[T]):
    """An event inside the merge."""

    serial: int
    """Counts arrivals."""
    linked: Linked[T]
    bundles: tuple[Bundle, ...]
    rule: Rule | None
    key: Key
    deadline: float
    """Seconds; it is given out by then, whatever is missing."""
    out: bool = False
    """Has left its merge."""
    late: bool = False
    """Something that follows it in the resolved order is out."""

    @property
    def time(self) -> int:
        """Its time stamp, ms since 1970."""
        return self.linked.event_id.timestamp

    @property
    def bundle_keys(self) -> list[BundleKey]:
        """The bundles that it belongs to."""
        return [(self.linked.stream, bundle.bundle_id) for bundle in self.bundles]


@attrs.frozen
class Given(Generic[T]):
    """An event is given out."""

    item: T
    late: bool = False
    """Something that follows it in the resolved order was given out before."""


@attrs.frozen
class Missing:
    """A bundle's numbers from `first` to `last` did not come in time. They may still come, late."""

    stream: str
    bundle_id: str
    first: int
    last: int


@attrs.frozen
class UnknownWord:
    """A TimeConstraint or MergeScheme is not in the vocabulary; each is told once."""

    word: str


Output: TypeAlias = Given[T] | Missing | UnknownWord


def key_of(rule: Rule, event_id: EventId, lanes: Sequence[int]) -> Key:
    """The key of an event that belongs to `lanes`; what no lane names comes behind all that do."""
    return (
        min(lanes, default=len(rule.order)),
        event_id.timestamp,
        event_id.client_id,
        event_id.incarnation,
        event_id.sequence_number,
    )
