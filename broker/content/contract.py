"""The contract of content routing: bytes go in, verdicts come out, and no tree crosses it.

Nothing outside `broker/content` knows which engine is behind it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TypeAlias

import attrs
from zope.interface import Interface

from broker.content.query.query import Query
from broker.dtd.reference import DtdReference
from broker.errors import InvalidEvent, QueryTooExpensive, UnknownType
from broker.event.envelope import Header, Liveness
from broker.event.stream import StreamPattern


@attrs.frozen(slots=True)
class Accepted:
    """A valid event and the numbers of the subscriptions that it matches, ascending."""

    header: Header
    subscriptions: tuple[int, ...]


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


Verdict: TypeAlias = Accepted | Refused | TypeMissing


class DtdNeeded(UnknownType):
    """An event from a log can not be read until this DTD is in the cache: fetch it, ask again."""

    def __init__(self, missing: TypeMissing) -> None:
        super().__init__(f"the DTD of {missing.reference} is not in the cache")
        self.missing = missing


class IMatcher(Interface):
    """Validates events and says which subscriptions want them (D20, F2). Synchronous."""

    def subscribe(pattern: StreamPattern, query: Query) -> int:
        """A new subscription's number, never given twice. Takes effect with the next `match`."""

    def unsubscribe(number: int) -> None:
        """Forget a subscription; raises `UnknownSubscription`."""

    def match(
        documents: Sequence[bytes], undescribed: Set[DtdReference] = frozenset()
    ) -> list[Verdict]:
        """A verdict for each document, in order.

        Events of the types in `undescribed`, for which no DTD can be had, are accepted when they
        are well-formed and their envelope is what the envelope's DTD says.
        """

    def select(
        number: int,
        documents: Sequence[bytes],
        liveness: Liveness,
        undescribed: Set[DtdReference] = frozenset(),
    ) -> list[bool]:
        """Which of these events, accepted before and read from a log, a subscription wants.

        They are not validated again; the defaults of their own DTD version are applied, and
        `$Liveness` has the value `liveness` whatever the document says (DESIGN 5). Stream pattern
        and query decide. Raises `UnknownSubscription`, `InvalidEvent` for bytes that can not be
        read at all, and `DtdNeeded` when a DTD is not in the cache and not in `undescribed`.
        """

    def suspended() -> list[tuple[int, QueryTooExpensive]]:
        """Subscriptions that broke their budget while running, since the last call.

        They match nothing any more (F13), but stay known until they are unsubscribed.
        """

    def statistics() -> dict[str, int | float]:
        """Counters since the start, and sizes now."""
