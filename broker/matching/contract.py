"""The contract of content routing: bytes go in, verdicts come out, and no tree crosses it.

Nothing outside `broker/matching` knows which engine is behind it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import attrs
from zope.interface import Interface

from broker.dtd.reference import DtdReference
from broker.errors import InvalidEvent, QueryTooExpensive, UnknownType
from broker.event.envelope import Header, Liveness
from broker.event.stream import StreamPattern
from broker.matching.explain.explanation import Explanation
from broker.matching.query.query import Query


class Accepted(NamedTuple):
    """A valid event and the numbers of the subscriptions that it matches, ascending.

    A tuple, because one is made per event at every hop.
    """

    header: Header
    subscriptions: tuple[int, ...]


class AcceptedWithLatestVersion(Accepted):
    """A valid event with a LatestVersionNum (M29). May also stand for an event without one."""

    __slots__ = ()


_LATEST: Final = b"LatestVersionNum"


def accepted_class(document: bytes) -> type[Accepted]:
    """The class of the verdict on a valid event."""
    return AcceptedWithLatestVersion if _LATEST in document else Accepted


@attrs.frozen(slots=True)
class Refused:
    """An event that must not be logged, and why."""

    error: InvalidEvent


@attrs.frozen(slots=True)
class TypeMissing:
    """The DTD is not in the cache: fetch it and ask again.

    `system_id` is the event's pointer (M14), of which only the format was checked. When no DTD can
    be had, the node's setting decides: refuse with the `UnknownType` that the fetch failed with, or
    ask again with the reference among `undescribed`.
    """

    reference: DtdReference
    system_id: str


#: By reference the DTD with the same name that counts instead.
Variants: TypeAlias = Mapping[DtdReference, DtdReference]
NO_VARIANTS: Final[Variants] = MappingProxyType({})

Verdict: TypeAlias = Accepted | Refused | TypeMissing


class DtdNeeded(UnknownType):
    """An event from a log can not be read until this DTD is in the cache: fetch it, ask again."""

    def __init__(self, missing: TypeMissing) -> None:
        super().__init__(f"the DTD of {missing.reference} is not in the cache")
        self.missing = missing


@attrs.frozen
class TypeCounters:
    """What the events of one type have cost since the start, and what there is now.

    Without a name (`type` and `version` empty) stand refused events of no known type, and events
    of types beyond the number that an engine keeps apart.
    """

    type: str
    version: str
    recognised: int
    """Events that a shape recognised: they were not parsed."""
    parsed: int
    """Events that were parsed and accepted."""
    refused: int
    undecided: int
    """Queries evaluated one by one on recognised events (F6)."""
    recognised_seconds: float
    """Spent on recognised events, behind the recognition itself."""
    undecided_seconds: float
    """Of that, on queries evaluated one by one."""
    parsed_seconds: float
    """Spent on events that were parsed or refused."""
    shapes: int
    suspended: bool
    """Its shapes do not recur, so for the time being its events are parsed."""


class IMatcher(Interface):
    """Validates events and says which subscriptions want them (D20, F2). Synchronous."""

    def subscribe(pattern: StreamPattern, query: Query, client: str = "") -> int:
        """A new subscription's number, never given twice. Takes effect with the next `match`.

        The queries of one `client` share what time there is for it (F13).
        """

    def unsubscribe(number: int) -> None:
        """Forget a subscription; raises `UnknownSubscription`."""

    def match(
        documents: Sequence[bytes],
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[Verdict]:
        """A verdict for each document, in order; for the first ones alone when time is up.

        After `seconds` it stops as soon as it can, but not before the first verdict.

        Events of the types in `undescribed`, for which no DTD can be had, are accepted when they
        are well-formed and their envelope is what the envelope's DTD says. A query that breaks its
        budget on one of the events has missed none before it, and matches none from it on.
        `variants` names the DTDs that count for these events instead of those of the same names.
        """

    def select(
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[bool]:
        """Which of these events, accepted before and read from a log, a subscription wants.

        When time is up it tells of the first ones alone, as `match` does.
        They are not validated again; the defaults of their own DTD version are applied, and
        `$Liveness` has the value `liveness` whatever the document says (DESIGN 5). Stream pattern
        and query decide. Raises `UnknownSubscription`, `InvalidEvent` for bytes that can not be
        read at all, and `DtdNeeded` when a DTD is not in the cache and not in `undescribed`.
        """

    def take_suspended() -> list[tuple[int, QueryTooExpensive]]:
        """Subscriptions that broke their budget while running, since the last call.

        They match nothing any more (F13), but stay known until they are unsubscribed.
        """

    def statistics() -> dict[str, int | float]:
        """Counters since the start, and sizes now."""

    def type_counters() -> tuple[TypeCounters, ...]:
        """The figures of each event type that came, sorted by name and version."""

    def explain(
        query: Query,
        document: bytes | None,
        undescribed: Set[DtdReference] = frozenset(),
        *,
        shapes: bool = True,
    ) -> Explanation:
        """How a query is answered; whether and why an event matches it, if one is given (N7).

        The event is examined as one that is published. What it says agrees with `match`; nothing
        is counted, learnt or suspended by it. It takes a few tenths of a second at most, and tells
        what it left out. Without `shapes` nothing is told of the events that were seen so far.
        Raises `DtdNeeded` when the event's DTD is not in the cache and not in `undescribed`.
        """
