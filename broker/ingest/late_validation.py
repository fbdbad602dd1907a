"""Events of the log that were refused on their way here, or came before their DTD.

They lie in the log among others: a refused one as a placeholder, an undecided one as it came. Who
reads the log gets a gap for the first, and judges the second when its DTD is here.
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
from broker.event.envelope import Liveness
from broker.event.placeholder import placeholder_code
from broker.event.stream import StreamPattern
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

#: The code of a gap for an event whose DTD nobody has.
UNKNOWN_TYPE: Final = "unknown-type"
#: A query that may ask for attributes: a DTD supplies defaults for these and for nothing else.
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
    """Events of the log that one look of the matcher decides."""

    events: list[LoggedEvent]
    variants: Variants = NO_VARIANTS
    needs_validation: bool = False
    """A single event that is refused, or undecided."""


class LateValidator:
    """Judges when the log is read."""

    def __init__(
        self,
        matcher: IMatcher,
        unvalidated: UnvalidatedEvents,
        pending_dtds: PendingDtds,
        variants: Callable[[str], Variants],
    ) -> None:
        """`variants` gives the texts of an origin that are others than those that count here."""
        self._matcher = matcher
        self._unvalidated = unvalidated
        self._variants = variants
        self.pending_dtds = pending_dtds

    def split_runs(self, events: list[LoggedEvent]) -> Iterator[EventRun]:
        """The events in runs, in order."""
        run: list[LoggedEvent] = []
        run_variants = NO_VARIANTS
        for event in events:
            variants = self._variants(event.origin)
            single = self._needs_validation(event)
            if run and (single or variants is not run_variants):
                yield EventRun(run, run_variants)
                run = []
            run_variants = variants
            if single:
                yield EventRun([event], variants, needs_validation=True)
            else:
                run.append(event)
        if run:
            yield EventRun(run, run_variants)

    def _needs_validation(self, event: LoggedEvent) -> bool:
        if self._unvalidated and self._unvalidated.may_contain(event.origin, event.mark):
            return True
        return placeholder_code(event.document) is not None

    def rejection_code(self, run: EventRun) -> str | None:
        """Why the event of a run that is judged first counts as refused; None: it is valid.

        Raises `DtdNeeded` while that is not known.
        """
        document = run.events[0].document
        code = placeholder_code(document)
        if code is not None:
            return code
        (verdict,) = self._matcher.match([document], variants=run.variants)
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
        """Whether a subscription may want the first event of a run, whose DTD is not here.

        A DTD adds attributes and no elements: a query that asks for none is decided without it.
        """
        event = run.events[0]
        if not matches_stream(subscription, event):
            return False
        if subscription.query is None or _ATTRIBUTE_SYNTAX.search(subscription.query.text):
            return True
        missing = frozenset((needed.reference,))
        try:
            (found,) = self._matcher.select(
                subscription.matcher_number,
                [event.document],
                liveness,
                missing,
                variants=run.variants,
            )
        except InvalidEvent:
            return True
        return found

    def find_first_of_type(self, run: EventRun, needed: TypeMissing) -> int:
        """The index of the first event that needs a DTD."""
        for index, event in enumerate(run.events):
            _, name, version = decode_stream_and_type(event)
            reference = DtdReference(name, version)
            if run.variants.get(reference, reference) == needed.reference:
                return index
        return 0

    def call_when_settled(self, needed: TypeMissing, on_settled: Callable[[bool], object]) -> None:
        """Call `settled` when the DTD is here, or nobody waits for it any longer."""
        self.pending_dtds.call_when_settled(
            needed.reference, FetchHint(needed.system_id), on_settled
        )


def matches_stream(subscription: SubscriptionQuery, event: LoggedEvent) -> bool:
    """Whether the pattern of a subscription matches an event's stream, if that is known."""
    stream, *_ = decode_stream_and_type(event)
    return not stream or subscription.pattern is None or subscription.pattern.matches(stream)


def decode_stream_and_type(event: LoggedEvent) -> tuple[str, str, str]:
    """Stream, type and version in an event's record."""
    header = header_from_fields(msgpack.unpackb(event.record, use_list=False))
    return header.stream, header.type_name, header.version


def make_single_run(events: Sequence[LoggedEvent]) -> Iterator[EventRun]:
    """All events as one run: there is nothing to be judged late."""
    yield EventRun(list(events))
