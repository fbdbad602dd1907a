"""Events of a page that were refused earlier, or have a missing DTD."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.reference import DtdReference
from broker.errors import NotValid, Overloaded
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder
from broker.event.stream import StreamPattern
from broker.ingest.late_validation import EventRun, LateValidator
from broker.log.logged_event import LoggedEvent, encode_header
from broker.matching.contract import (
    NO_VARIANTS,
    Accepted,
    DtdNeeded,
    Refused,
    TypeMissing,
    Variants,
    Verdict,
)
from broker.matching.query.query import parse_query
from broker.recovery.page_matcher import REMOTE_DTD_WAIT, PageMatcher, PageQuery

LATE_TYPE = DtdReference("late", "1.0")


def logged(offset: int, document: bytes = b"<x/>", *, late: bool = False) -> LoggedEvent:
    """`late`: of the type with the missing DTD."""
    header = Header(
        *(EventId("p", 1, offset, 1), "s", "late" if late else "t", "1.0"),
        *(SecurityLevel.LOW, Liveness.LIVE),
    )
    document = b"<late/>" if late else document
    return LoggedEvent(1, offset, 0, 0, encode_header(header), document, "far", offset)


@attrs.define
class Node:
    undecided: Collection[int] = ()
    has_dtd: bool = False
    told_at_once: bool = False
    clock: Clock = attrs.field(factory=Clock)
    seen: list[bytes] = attrs.field(factory=list)
    waiting: list[Callable[[bool], object]] = attrs.field(factory=list)

    def may_contain(self, origin: str, mark: Mark) -> bool:
        return mark[1] in self.undecided

    def call_when_settled(
        self, reference: DtdReference, hint: FetchHint, settled: Callable[[bool], object]
    ) -> None:
        assert reference == LATE_TYPE
        self.waiting.append(settled)
        if self.told_at_once:
            settled(self.has_dtd)

    def match(
        self, documents: Sequence[bytes], seconds: float, variants: Variants, *, marked: bool
    ) -> list[Verdict]:
        if documents[0] == b"<bad/>":
            return [Refused(NotValid("bad"))]
        return [Accepted(cast(Any, None), ())]

    def select(self, number: int, *_: Any, variants: Variants, marked: bool = False) -> list[bool]:
        return [True]

    async def select_page(
        self, holder: str, number: int, run: EventRun, liveness: Liveness
    ) -> list[bool]:
        documents = [event.document for event in run.events]
        if b"<late/>" in documents and not self.has_dtd:
            raise DtdNeeded(TypeMissing(LATE_TYPE, ""))
        self.seen += documents
        return [document != b"<other/>" for document in documents]

    def select_events(
        self, *events: LoggedEvent, patient: bool = False, pattern: str = ">"
    ) -> Deferred[list[LoggedEvent]]:
        made: Any = self
        undecided = made if self.undecided else cast(Any, ())
        late = LateValidator(made, undecided, made, lambda _: NO_VARIANTS)
        matching = PageMatcher(self.select_page, late, self.clock)
        query = parse_query("//x/@y = 'z'")
        reader = PageQuery(StreamPattern.parse(pattern), query, 1, waits_for_dtds=patient)
        return Deferred.fromCoroutine(matching.select_events(reader, list(events)))


def came(matching: Deferred[list[LoggedEvent]]) -> list[tuple[int, bytes]]:
    """Return the offsets and documents of a finished page."""
    pages: list[list[LoggedEvent]] = []
    matching.addCallback(pages.append)
    assert pages, "it waits for something"
    return [(event.offset, event.document) for event in pages[0]]


def test_a_refused_event_stays_a_placeholder_and_is_not_matched() -> None:
    node = Node()
    refused = make_placeholder("not-valid", b"<x/>")
    events = [logged(1), logged(2, refused), logged(3, b"<other/>"), logged(4)]
    assert came(node.select_events(*events)) == [(1, b"<x/>"), (2, refused), (4, b"<x/>")]
    assert node.seen == [b"<x/>", b"<other/>", b"<x/>"]


def test_a_refused_event_of_another_stream_is_omitted() -> None:
    assert (
        came(Node().select_events(logged(1, make_placeholder("not-valid", b"<x/>")), pattern="t"))
        == []
    )


def test_an_undecided_event_is_validated_before_it_is_matched() -> None:
    node = Node(undecided={1, 2, 3})
    found = came(node.select_events(logged(1), logged(2, b"<bad/>"), logged(3, b"<other/>")))
    assert found == [(1, b"<x/>"), (2, make_placeholder("not-valid", b"<bad/>"))]
    assert node.seen == [b"<x/>", b"<other/>"]


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize("found", [False, True])
def test_a_page_waits_for_a_dtd_and_marks_events_without_one(found: bool, patient: bool) -> None:
    node = Node()
    page = node.select_events(logged(1), logged(2, late=True), logged(3), patient=patient)
    assert not page.called
    node.has_dtd = found
    (settled,) = node.waiting
    settled(found)
    document = b"<late/>" if found else make_placeholder("unknown-type", b"<late/>")
    assert came(page) == [(1, b"<x/>"), (2, document), (3, b"<x/>")]


def test_a_page_for_another_node_waits_less_than_that_node() -> None:
    node = Node()
    far, own = (
        node.select_events(logged(1, late=True), patient=patient) for patient in (False, True)
    )
    failed: list[Failure] = []
    far.addErrback(failed.append)
    node.clock.advance(REMOTE_DTD_WAIT - 0.1)
    assert not failed
    node.clock.advance(0.1)
    assert isinstance(failed[0].value, Overloaded)
    node.clock.advance(10 * REMOTE_DTD_WAIT)
    assert not own.called
    node.has_dtd = True
    for settled in node.waiting:
        settled(True)
    assert came(own) == [(1, b"<late/>")]


def test_a_dtd_known_to_be_missing_is_not_awaited() -> None:
    node = Node(told_at_once=True)
    page = node.select_events(logged(1, late=True))
    assert came(page) == [(1, make_placeholder("unknown-type", b"<late/>"))]
    assert node.clock.getDelayedCalls() == []


def test_a_dtd_of_another_stream_is_not_awaited() -> None:
    node = Node()
    assert came(node.select_events(logged(1, late=True), pattern="t")) == []
    assert node.waiting == []
