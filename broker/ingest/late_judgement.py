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
from broker.ingest.awaited_types import AwaitedTypes
from broker.ingest.undecided import UndecidedEvents
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
_OF_ATTRIBUTES: Final = re.compile(r"@|\battribute\s*::|\bid\s*\(|\blang\s*\(|\bnamespace\s*::")


class Interest(Protocol):
    """A subscription, or the query of a recovery."""

    @property
    def pattern(self) -> StreamPattern | None: ...
    @property
    def query(self) -> Query | None: ...
    @property
    def matcher_number(self) -> int: ...


@attrs.frozen
class Run:
    """Events of the log that one look of the matcher decides."""

    events: list[LoggedEvent]
    variants: Variants = NO_VARIANTS
    judged_first: bool = False
    """A single event that is refused, or undecided."""


class LateJudgement:
    """Judges when the log is read."""

    def __init__(
        self,
        matcher: IMatcher,
        undecided: UndecidedEvents,
        awaited: AwaitedTypes,
        variants: Callable[[str], Variants],
    ) -> None:
        """`variants` gives the texts of an origin that are others than those that count here."""
        self._matcher = matcher
        self._undecided = undecided
        self._variants = variants
        self.awaited = awaited

    def runs(self, events: list[LoggedEvent]) -> Iterator[Run]:
        """The events in runs, in order."""
        run: list[LoggedEvent] = []
        of_run = NO_VARIANTS
        for event in events:
            variants = self._variants(event.origin)
            single = self._is_single(event)
            if run and (single or variants is not of_run):
                yield Run(run, of_run)
                run = []
            of_run = variants
            if single:
                yield Run([event], variants, judged_first=True)
            else:
                run.append(event)
        if run:
            yield Run(run, of_run)

    def _is_single(self, event: LoggedEvent) -> bool:
        if self._undecided and self._undecided.has(event.origin, event.mark):
            return True
        return placeholder_code(event.document) is not None

    def code(self, run: Run) -> str | None:
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

    def may_match(self, feed: Interest, run: Run, needed: TypeMissing, liveness: Liveness) -> bool:
        """Whether a subscription may want the first event of a run, whose DTD is not here.

        A DTD adds attributes and no elements: a query that asks for none is decided without it.
        """
        event = run.events[0]
        if not wants_stream(feed, event):
            return False
        if feed.query is None or _OF_ATTRIBUTES.search(feed.query.text):
            return True
        missing = frozenset((needed.reference,))
        try:
            (found,) = self._matcher.select(
                feed.matcher_number, [event.document], liveness, missing, variants=run.variants
            )
        except InvalidEvent:
            return True
        return found

    def first_of_type(self, run: Run, needed: TypeMissing) -> int:
        """The index of the first event that needs a DTD."""
        for index, event in enumerate(run.events):
            _, name, version = stream_and_type(event)
            reference = DtdReference(name, version)
            if run.variants.get(reference, reference) == needed.reference:
                return index
        return 0

    def when_settled(self, needed: TypeMissing, settled: Callable[[bool], object]) -> None:
        """Call `settled` when the DTD is here, or nobody waits for it any longer."""
        self.awaited.when_settled(needed.reference, FetchHint(needed.system_id), settled)


def wants_stream(feed: Interest, event: LoggedEvent) -> bool:
    """Whether the pattern of a subscription matches an event's stream, if that is known."""
    stream, *_ = stream_and_type(event)
    return not stream or feed.pattern is None or feed.pattern.matches(stream)


def stream_and_type(event: LoggedEvent) -> tuple[str, str, str]:
    """Stream, type and version in an event's record."""
    header = header_from_fields(msgpack.unpackb(event.record, use_list=False))
    return header.stream, header.type_name, header.version


def whole(events: Sequence[LoggedEvent]) -> Iterator[Run]:
    """All events as one run: there is nothing to be judged late."""
    yield Run(list(events))
