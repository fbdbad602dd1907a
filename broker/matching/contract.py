"""The interface of matching engines: documents in, verdicts out, without trees.

Other packages do not depend on a particular engine.
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

    It is a tuple, since one is made for each event at every hop.
    """

    header: Header
    subscriptions: tuple[int, ...]


class AcceptedWithLatestVersion(Accepted):
    """A valid event with a LatestVersionNum (M29), or that may have one."""

    __slots__ = ()


_LATEST: Final = b"LatestVersionNum"


def accepted_class(document: bytes) -> type[Accepted]:
    """Return the class of the verdict on a valid event."""
    return AcceptedWithLatestVersion if _LATEST in document else Accepted


@attrs.frozen(slots=True)
class Refused:
    """An event that must not be logged, and the reason."""

    error: InvalidEvent


@attrs.frozen(slots=True)
class TypeMissing:
    """The DTD is not in the cache. The caller fetches it and matches again.

    `system_id` is the event's pointer (M14), of which only the format was checked. If no DTD is
    available, a setting decides: refuse with the fetch's `UnknownType`, or match again with the
    reference in `undescribed`.
    """

    reference: DtdReference
    system_id: str


#: DTDs with the same names that replace the types' own DTDs.
Variants: TypeAlias = Mapping[DtdReference, DtdReference]
NO_VARIANTS: Final[Variants] = MappingProxyType({})

Verdict: TypeAlias = Accepted | Refused | TypeMissing


class DtdNeeded(UnknownType):
    """Raised for a logged event with a DTD that the caller must fetch first."""

    def __init__(self, missing: TypeMissing) -> None:
        super().__init__(f"the DTD of {missing.reference} is not in the cache")
        self.missing = missing


@attrs.frozen
class TypeCounters:
    """Counters of the events of one type since the start, and present sizes.

    Empty `type` and `version` stand for refused events of no known type, and for types beyond the
    engine's limit.
    """

    type: str
    version: str
    recognised: int
    """Events recognised by a shape, and so not parsed."""
    parsed: int
    """Events that were parsed and accepted."""
    refused: int
    undecided: int
    """Queries evaluated one by one on recognised events (F6)."""
    recognised_seconds: float
    """Time for recognised events, without the recognition itself."""
    undecided_seconds: float
    """Part of it spent on queries evaluated one by one."""
    parsed_seconds: float
    """Time for events that were parsed or refused."""
    shapes: int
    suspended: bool
    """The type's shapes do not recur, so its events are parsed for now."""


class IMatcher(Interface):
    """Validates events and finds matching subscriptions (D20, F2). Synchronous."""

    def subscribe(pattern: StreamPattern, query: Query, client: str = "") -> int:
        """Add a subscription; return its number, which is never reused. The next `match` uses it.

        All queries of one `client` share its time (F13).
        """

    def unsubscribe(number: int) -> None:
        """Remove a subscription. Raises `UnknownSubscription`."""

    def match(
        documents: Sequence[bytes],
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[Verdict]:
        """Return a verdict for each document in order, possibly for the first ones only.

        After `seconds` it stops as soon as possible, but not before the first verdict.

        Events of the types in `undescribed`, which have no DTD, are accepted if they are
        well-formed and their envelope is valid by the envelope's DTD. A query that exceeds its
        budget on an event has matched all earlier events, and matches none from this event on.
        `variants` names DTDs that replace those of the same names.
        """

    def select(
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        undescribed: Set[DtdReference] = frozenset(),
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
    ) -> list[bool]:
        """Return True for each logged event that a subscription matches.

        After `seconds` it returns the first results only, like `match`. The events were accepted
        before and are not validated again. The defaults of their own DTD version are applied, and
        `$Liveness` has the value `liveness` (DESIGN 5). Stream pattern and query decide. Raises
        `UnknownSubscription`; `InvalidEvent` for unreadable bytes; `DtdNeeded` if a DTD is neither
        in the cache nor in `undescribed`.
        """

    def take_suspended() -> list[tuple[int, QueryTooExpensive]]:
        """Return the subscriptions that exceeded their budget since the last call.

        They match nothing more (F13), but remain known until `unsubscribe`.
        """

    def statistics() -> dict[str, int | float]:
        """Return counters since the start, and present sizes. Refusals are counted by code."""

    def type_counters() -> tuple[TypeCounters, ...]:
        """Return the counters of each event type met, sorted by name and version."""

    def explain(
        query: Query,
        document: bytes | None,
        undescribed: Set[DtdReference] = frozenset(),
        *,
        shapes: bool = True,
    ) -> Explanation:
        """Explain how a query is evaluated, and why an event matches it or not (N7).

        The event is examined like a published one, with the same result as `match`. Nothing is
        counted, learnt or suspended. It takes a few tenths of a second at most, and lists
        omissions. Without `shapes` the answer reveals nothing about earlier events. Raises
        `DtdNeeded` if the event's DTD is neither in the cache nor in `undescribed`.
        """
