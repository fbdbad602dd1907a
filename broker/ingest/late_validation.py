"""Validation of logged events that were rejected on their way, or arrived before their DTD.

A placeholder in the log stands for a rejected event, and becomes a gap.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import attrs
import msgpack

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import InvalidEvent
from broker.event.envelope import Liveness, Validation
from broker.event.placeholder import placeholder_code
from broker.event.stream import StreamPattern
from broker.ingest.claimed_validation import match_as_validated, split_by_validation
from broker.ingest.pending_dtds import PendingDtds
from broker.ingest.unvalidated_events import UnvalidatedEvents
from broker.log.logged_event import LoggedEvent, header_from_fields
from broker.matching.contract import (
    NO_VARIANTS,
    DtdNeeded,
    IMatcher,
    Refused,
    TypeMissing,
    Variants,
)
from broker.matching.query.query import Query
from broker.matching.undescribed import EVERY_TYPE_UNDESCRIBED, without_dtds

#: No node has the DTD.
UNKNOWN_TYPE: Final = "unknown-type"
#: A query that may select attributes: a DTD supplies defaults for these only.
_ATTRIBUTE_SYNTAX: Final = re.compile(r"@|\battribute\s*::|\bid\s*\(|\blang\s*\(|\bnamespace\s*::")


class SubscriptionQuery(Protocol):
    """A subscription, or the query of a recovery."""

    @property
    def pattern(self) -> StreamPattern | None: ...
    @property
    def query(self) -> Query | None: ...
    @property
    def matcher_number(self) -> int: ...


@attrs.frozen
class EventRun:
    """Consecutive events for one matcher call."""

    events: list[LoggedEvent]
    variants: Variants = NO_VARIANTS
    marked: bool = False
    """Their origin has marked them."""
    needs_validation: bool = False
    """True for a single placeholder or unvalidated event."""


class LateValidator:
    """Validates events while the log is read."""

    def __init__(
        self,
        matcher: IMatcher,
        unvalidated: UnvalidatedEvents,
        pending_dtds: PendingDtds,
        variants: Callable[[str], Variants],
    ) -> None:
        """`variants` returns an origin's DTD texts that differ from those used here."""
        self._matcher = matcher
        self._unvalidated = unvalidated
        self._variants = variants
        self.pending_dtds = pending_dtds

    def split_runs(self, events: list[LoggedEvent]) -> Iterator[EventRun]:
        for validation, alike in split_by_validation(events):
            marked = validation is Validation.MARKED
            run: list[LoggedEvent] = []
            run_variants = NO_VARIANTS
            for event in alike:
                variants = self._variants(event.origin)
                if validation is Validation.UNDESCRIBED:
                    variants = EVERY_TYPE_UNDESCRIBED
                single = self._needs_validation(event)
                if run and (single or variants is not run_variants):
                    yield EventRun(run, run_variants, marked)
                    run = []
                run_variants = variants
                if single:
                    yield EventRun([event], variants, marked, needs_validation=True)
                else:
                    run.append(event)
            if run:
                yield EventRun(run, run_variants, marked)

    def _needs_validation(self, event: LoggedEvent) -> bool:
        if self._unvalidated and self._unvalidated.may_contain(event.origin, event.mark):
            return True
        return placeholder_code(event.document) is not None

    def rejection_code(self, run: EventRun) -> str | None:
        """Return the error code of a run's rejected event; None if it is valid.

        Raises `DtdNeeded` while the DTD is unknown.
        """
        document = run.events[0].document
        code = placeholder_code(document)
        if code is not None:
            return code
        (verdict,) = match_as_validated(self._matcher, run.events[:1], variants=run.variants)
        if isinstance(verdict, Refused):
            return verdict.error.code
        if isinstance(verdict, TypeMissing):
            raise DtdNeeded(verdict)
        return None

    def may_match(
        self,
        subscription: SubscriptionQuery,
        run: EventRun,
        needed: TypeMissing,
        liveness: Liveness,
    ) -> bool:
        """Return whether a subscription may match a run's first event, without its DTD.

        A DTD adds attributes, but no elements. So a query without attributes needs none.
        """
        event = run.events[0]
        if not matches_stream(subscription, event):
            return False
        if subscription.query is None or _ATTRIBUTE_SYNTAX.search(subscription.query.text):
            return True
        try:
            (found,) = self._matcher.select(
                subscription.matcher_number,
                [event.document],
                liveness,
                variants=without_dtds([needed.reference], run.variants),
            )
        except InvalidEvent:
            return True
        return found

    def find_first_of_type(self, run: EventRun, needed: TypeMissing) -> int:
        for index, event in enumerate(run.events):
            _, name, version = decode_stream_and_type(event)
            reference = DtdReference(name, version)
            if run.variants.get(reference, reference) == needed.reference:
                return index
        return 0

    def call_when_settled(self, needed: TypeMissing, on_settled: Callable[[bool], object]) -> None:
        """Call when the DTD is found, or the timeout has expired."""
        self.pending_dtds.call_when_settled(
            needed.reference, FetchHint(needed.system_id), on_settled
        )


def matches_stream(subscription: SubscriptionQuery, event: LoggedEvent) -> bool:
    """Return whether the pattern matches the event's stream, or the stream is unknown."""
    stream, *_ = decode_stream_and_type(event)
    return not stream or subscription.pattern is None or subscription.pattern.matches(stream)


def decode_stream_and_type(event: LoggedEvent) -> tuple[str, str, str]:
    header = header_from_fields(msgpack.unpackb(event.record, use_list=False))
    return header.stream, header.type_name, header.version


def make_plain_runs(events: Sequence[LoggedEvent]) -> Iterator[EventRun]:
    """Yield the runs of events that are all valid, and of which no text differs here."""
    for validation, run in split_by_validation(events):
        variants = EVERY_TYPE_UNDESCRIBED if validation is Validation.UNDESCRIBED else NO_VARIANTS
        yield EventRun(run, variants, validation is Validation.MARKED)
