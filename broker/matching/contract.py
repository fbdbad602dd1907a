"""The interface of matching engines: documents in, verdicts out, without trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

import attrs
from zope.interface import Attribute, Interface

from broker.dtd.reference import DtdReference
from broker.errors import PeerError, QueryTooExpensive, UnknownType
from broker.event.envelope import HIGHEST_RANK, Header, Liveness
from broker.event.stream import StreamPattern
from broker.matching.explain.explanation import Explanation
from broker.matching.query.query import Query


class Accepted(NamedTuple):
    """A valid event and the subscriptions that it matches, ascending. A tuple, for speed."""

    header: Header
    subscriptions: tuple[int, ...]


class AcceptedWithLatestVersion(Accepted):
    """A valid event with a LatestVersionNum (M29), or that may have one."""

    __slots__ = ()


_LATEST: Final = b"LatestVersionNum"


def accepted_class(document: bytes) -> type[Accepted]:
    return AcceptedWithLatestVersion if _LATEST in document else Accepted


@attrs.frozen(slots=True)
class Refused:
    """An event that must not be logged, and the reason."""

    error: PeerError


@attrs.frozen(slots=True)
class TypeMissing:
    """The DTD is not in the cache. The caller fetches it and matches again.

    `system_id` is the event's pointer (M14), with its format checked. Without a DTD the caller
    refuses with the fetch's `UnknownType`, or matches again with `broker.matching.undescribed`.
    """

    reference: DtdReference
    system_id: str


#: Texts that replace the types' own DTDs: of an origin, or none (`broker.matching.undescribed`).
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
    """Counters of one event type since the start, and present sizes.

    Empty `type` and `version` stand for refused events of no known type, and types beyond the
    limit.
    """

    type: str
    version: str
    recognised: int
    parsed: int
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
    """The type's shapes do not recur, so its events are parsed."""


class IMatcher(Interface):
    """Validates events and finds matching subscriptions (D20, F2). Synchronous."""

    last_number: int = Attribute("number of the newest subscription; 0: there was none")

    def subscribe(
        pattern: StreamPattern, query: Query, holder: str = "", clearance: int = HIGHEST_RANK
    ) -> int:
        """Add a subscription for the next `match`; return its number, which is never reused.

        Events above the rank `clearance` do not match it: its query is not evaluated on them, and
        is not suspended by them. All queries of one `holder`, an account or a client, share its
        time (F13).
        """

    def unsubscribe(number: int) -> None:
        """Remove a subscription. Raises `UnknownSubscription`."""

    def match(
        documents: Sequence[bytes],
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
        holder: str = "",
        *,
        marked: bool = False,
    ) -> list[Verdict]:
        """Return a verdict for each document in order, possibly for the first ones only.

        After `seconds` it stops as soon as possible, but not before the first verdict. A query that
        exceeds its budget on an event matches none from this event on. `variants` names DTDs that
        replace those of the same names. With `marked`, events with a valid envelope are accepted
        and marked, whether their DTD permits them or not. `holder`, an account or a client, has a
        share of undeclared names; without one, only the node's bound counts (T27).
        """

    def select(
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        seconds: float = inf,
        variants: Variants = NO_VARIANTS,
        *,
        marked: bool = False,
    ) -> list[bool]:
        """Return True for each logged event that a subscription matches.

        After `seconds` it returns the first results only. The events are not validated again. They
        get the defaults of their DTD version, and `$Liveness` is `liveness` (DESIGN 5). With
        `marked`, `$Validation` is "marked". Raises `UnknownSubscription`; `InvalidEvent` for
        unreadable bytes; `DtdNeeded` if a DTD is not in the cache.
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
        variants: Variants = NO_VARIANTS,
        *,
        shapes: bool = True,
    ) -> Explanation:
        """Explain how a query is evaluated, and why an event matches it or not (N7).

        Nothing is counted, learnt or suspended. It takes a few tenths of a second at most, and
        lists omissions. Without `shapes` the answer reveals nothing about earlier events. Raises
        `DtdNeeded` if the event's DTD is not in the cache.
        """
