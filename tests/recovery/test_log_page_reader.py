"""Pages of a log while the log and its readers change."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from broker.errors import UnknownSubscription
from broker.event.envelope import Liveness
from broker.event.place import Mark, NamedHistory, Position
from broker.event.placeholder import make_placeholder
from broker.event.stream import StreamPattern
from broker.ingest.late_validation import EventRun, LateValidator
from broker.log.coverage import Coverage
from broker.log.history import BranchLoss, HistoryChain
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import ReplicaSpan
from broker.matching.contract import NO_VARIANTS
from broker.matching.query.query import Query, parse_query
from broker.recovery.log_page_reader import LogPageReader, LogPageRequest, Page
from broker.recovery.page_matcher import PageMatcher
from broker.subscriptions.durable_subscriptions import DurableSubscription
from tests.recovery.test_log_merge import logged

EVENTS = [attrs.evolve(logged("own", n, n, "p", n), serial=n) for n in range(1, 7)]
WHOLE = LogPageRequest(
    StreamPattern.parse(">"), parse_query("true()"), 2, {"own": ((0, 0), (1, 6))}
)


@attrs.define
class Bounds:
    last: int = len(EVENTS)


class Repairs:
    """No damage."""

    def end_of_loss(self, table: str, origin: str, after: Mark) -> None:
        return None


@attrs.define
class Log:
    """Retention may remove events during a read."""

    taken: int = 0
    """Number of events that the next read finds removed."""
    page: int = 0
    """Events in one read."""
    origin: str = "own"
    flows: KnownFlows = attrs.field(factory=lambda: KnownFlows("own", {}))
    begins_after: dict[str, Mark] = attrs.field(factory=dict)
    coverage: Coverage = attrs.field(factory=lambda: Coverage({"own": (1, 6)}))
    bounds: Bounds = attrs.field(factory=Bounds)
    replica_spans: dict[str, ReplicaSpan] = attrs.field(factory=dict)
    repairs: Repairs = attrs.field(factory=lambda: Repairs())
    history_chain: HistoryChain = attrs.field(factory=HistoryChain)
    forks_at: Mark | None = None
    """The place at which the branch of any own place leaves this log."""
    histories: dict[str, tuple[NamedHistory, ...]] = attrs.field(factory=dict)

    def histories_of(self, origin: str) -> tuple[NamedHistory, ...]:
        return self.histories.get(origin, ())

    def find_fork(self, mark: Mark) -> Mark | None:
        return self.forks_at

    def first_after(self, origin: str, mark: Mark) -> int:
        behind = (e.serial for e in EVENTS if e.origin == origin and e.mark > mark)
        return next(behind, len(EVENTS) + 1)

    def read(
        self, start: int, max_events: int, max_bytes: int, *, wait: bool
    ) -> Deferred[list[LoggedEvent]]:
        if self.taken:
            self.begins_after = {"own": (1, self.taken)}
        found = [event for event in EVENTS if event.serial >= max(start, self.taken + 1)]
        return succeed(found[: self.page or max_events])

    def read_unsigned(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> Deferred[list[LoggedEvent]]:
        return succeed([e for e in EVENTS if e.origin == origin and e.mark > after][:max_events])

    def read_replica(
        self, origin: str, after: Mark, max_events: int, max_bytes: int, *, wait: bool
    ) -> Deferred[list[LoggedEvent]]:
        if self.taken:
            span = self.replica_spans[origin]
            self.replica_spans = {origin: span._replace(after=(1, self.taken))}
        gone = max(after, (1, self.taken))
        found = [attrs.evolve(e, origin=origin) for e in EVENTS if e.mark > gone]
        return succeed(found[: self.page or max_events])


class Matcher:
    """Counts subscribed queries; answers wait until they are released."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.given = 0
        self.waiting: list[Deferred[None]] = []
        self.waits = False

    def subscribe(
        self, pattern: StreamPattern, query: Query, client: str = "", clearance: int = 2
    ) -> int:
        self.given += 1
        self.known.add(self.given)
        return self.given

    def unsubscribe(self, number: int) -> None:
        self.known.remove(number)

    async def select(self, _: str, number: int, run: EventRun, __: Liveness) -> list[bool]:
        if self.waits:
            waiting: Deferred[None] = Deferred()
            self.waiting.append(waiting)
            await waiting
        if number not in self.known:
            raise UnknownSubscription(f"nobody has {number}")
        return [True] * len(run.events)


@attrs.define
class Durables:
    stored: DurableSubscription | None = None

    def get(self, client_id: str, name: str) -> DurableSubscription | None:
        return self.stored


def pages_of(
    log: Log, matcher: Matcher, stored: DurableSubscription | None = None
) -> LogPageReader:
    late = LateValidator(cast(Any, matcher), cast(Any, ()), cast(Any, None), lambda _: NO_VARIANTS)
    matching = PageMatcher(matcher.select, late, Clock())
    return LogPageReader(cast(Any, log), cast(Any, matcher), matching, cast(Any, Durables(stored)))


def ask(pages: LogPageReader, request: LogPageRequest = WHOLE) -> list[Page]:
    got: list[Page] = []
    Deferred.fromCoroutine(pages.read_page(request)).addCallback(got.append)
    return got


def test_a_range_is_complete_and_its_query_is_unsubscribed() -> None:
    matcher = Matcher()
    (page,) = ask(pages_of(Log(), matcher))
    assert [event.offset for event in page.events] == [1, 2, 3, 4, 5, 6]
    assert page.reached == {"own": (1, 6)} and page.next_serial == 0
    assert matcher.known == set()


@pytest.mark.parametrize("clearance", [0, 1, 2])
@pytest.mark.parametrize("kept", [False, True], ids=["own", "copies"])
def test_a_page_omits_and_counts_events_above_the_clearance(
    clearance: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        f"{__name__}.EVENTS",
        [attrs.evolve(event, level=event.offset // 3) for event in EVENTS],
    )
    log, request = Log(), attrs.evolve(WHOLE, clearance=clearance)
    if kept:
        log.replica_spans = {"gone": ReplicaSpan((0, 0), (1, 6))}
        request = attrs.evolve(request, ranges={"gone": ((0, 0), (1, 6))})
    ((page),) = ask(pages_of(log, Matcher()), request)
    cleared = [n for n in range(1, 7) if n // 3 <= clearance]
    assert [event.offset for event in page.events] == cleared
    assert page.reached == dict.fromkeys(request.ranges, (1, 6))


@pytest.mark.parametrize("clearance", [0, 1, 2])
def test_selected_events_of_any_log_are_cleared(clearance: int) -> None:
    events = [attrs.evolve(event, level=event.offset // 3) for event in EVENTS]
    request = attrs.evolve(WHOLE, clearance=clearance)
    matched: list[list[LoggedEvent]] = []
    matching = pages_of(Log(), Matcher()).select_events(request, events)
    Deferred.fromCoroutine(matching).addCallback(matched.append)
    assert matched == [[event for event in events if event.level <= clearance]]


def test_concurrent_readers_do_not_interfere() -> None:
    matcher = Matcher()
    matcher.waits = True
    pages = pages_of(Log(), matcher)
    one, other = ask(pages), ask(pages)
    while matcher.waiting:
        matcher.waiting.pop().callback(None)
    assert [len(page.events) for page in (*one, *other)] == [6, 6]
    assert matcher.known == set()


def test_events_removed_during_a_read_do_not_count_as_read() -> None:
    (page,) = ask(pages_of(Log(taken=3), Matcher()))
    assert (page.events, page.reached, page.next_serial) == ([], {}, 0)


@pytest.mark.parametrize("upto", [None, (1, 6), (1, 4), (1, 3)])
def test_a_log_is_read_page_by_page(upto: Mark | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.recovery.log_page_reader.PAGE_BYTES", 1)
    request = attrs.evolve(WHOLE, ranges={"own": ((0, 0), upto)})
    got: list[int] = []
    for _ in range(4):
        ((page),) = ask(pages_of(Log(page=2), Matcher()), request)
        got += [event.offset for event in page.events]
        last = (upto or (1, 6))[1]
        read = min(last, page.next_serial - 1) if page.next_serial else last
        assert page.reached == {"own": (1, read)}
        if not page.next_serial or read == last:
            break
        request = attrs.evolve(request, ranges={"own": ((1, read), upto)}, serial=page.next_serial)
    assert got == list(range(1, last + 1)) and read == last


@pytest.mark.parametrize("matching", [True, False])
def test_a_page_ends_when_its_matching_events_fill_it(
    matching: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two events are read at a time; three fill a page."""

    class Rare(Matcher):
        async def select(self, *of: Any) -> list[bool]:
            return [matching] * len(of[2].events)

    size = EVENTS[0].size
    assert {event.size for event in EVENTS} == {size}
    monkeypatch.setattr("broker.recovery.log_page_reader.PAGE_BYTES", 3 * size)
    (page,) = ask(pages_of(Log(page=2), Rare()))
    # Without matching events, one page reads all.
    assert [event.offset for event in page.events] == ([1, 2, 3, 4] if matching else [])
    assert page.reached == {"own": (1, 4 if matching else 6)}
    assert page.next_serial == (5 if matching else 0)


def test_a_log_has_its_own_origin_and_its_replicas() -> None:
    pages = pages_of(Log(replica_spans={"gone": ReplicaSpan((0, 0), (1, 6))}), Matcher())
    assert [pages.has_log_or_replica(origin) for origin in ("own", "gone", "far")] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("after", "upto", "serial", "offsets", "reached", "begins"),
    [
        ((1, 1), (2, 12), 0, [2, 3], (1, 3), (1, 9)),
        ((1, 1), None, 0, [2, 3], (1, 3), (1, 9)),
        ((1, 1), (1, 2), 0, [2], (1, 2), None),
        ((1, 3), (2, 12), 0, [], None, (1, 9)),
        ((1, 9), (2, 12), 0, [11, 12], (2, 12), None),
        ((2, 0), (2, 12), 0, [], (2, 3), (2, 9)),
        ((2, 0), (2, 12), 4, [11, 12], (2, 12), None),
        ((2, 9), (2, 12), 0, [11, 12], (2, 12), None),
    ],
    ids=["before", "no-end", "ends-before", "at", "had-it", "recorded", "goes-on", "behind"],
)
def test_a_page_ends_before_lost_events_and_the_next_begins_behind(
    after: Mark,
    upto: Mark | None,
    serial: int,
    offsets: list[int],
    reached: Mark | None,
    begins: Mark | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Offsets continue above those of the other branch.
    marks = [(1, 1), (1, 2), (1, 3), (2, 11), (2, 12)]
    monkeypatch.setattr(
        f"{__name__}.EVENTS",
        [
            attrs.evolve(logged("own", mark[1], n, "p", n), epoch=mark[0], serial=n)
            for n, mark in enumerate(marks, 1)
        ],
    )
    empty = BranchLoss((2, 1), (2, 1), (1, 3), (1, 9))
    loss = BranchLoss((2, 3), (2, 9), (1, 3), (1, 9), ((4, 9),))
    log = Log(coverage=Coverage({"own": (2, 12)}), history_chain=HistoryChain([], [empty, loss]))
    log.bounds.last = len(marks)
    request = attrs.evolve(WHOLE, ranges={"own": (after, upto)}, serial=serial)
    ((page),) = ask(pages_of(log, Matcher()), request)
    assert [event.offset for event in page.events] == offsets
    assert page.reached == ({} if reached is None else {"own": reached})
    assert page.begins == ({} if begins is None else {"own": begins})


def test_an_incomplete_page_tells_where_the_log_begins() -> None:
    own = LogPageRequest(*(WHOLE.pattern, WHOLE.query, 2), {"own": ((0, 0), (1, 6))})
    (page,) = ask(pages_of(Log(begins_after={"own": (1, 2)}), Matcher()), own)
    assert (page.events, page.reached, page.begins) == ([], {}, {"own": (1, 2)})
    far = attrs.evolve(own, ranges={"far": ((0, 0), (1, 6))})
    kept = {"far": ReplicaSpan((1, 4), (1, 6))}
    (page,) = ask(pages_of(Log(replica_spans=kept), Matcher()), far)
    assert (page.events, page.reached, page.begins) == ([], {}, {"far": (1, 4)})
    (page,) = ask(pages_of(Log(), Matcher()), far)
    assert page.begins == {}


def test_a_failed_query_is_unsubscribed() -> None:
    matcher = Matcher()
    matcher.waits = True
    pages = pages_of(Log(), matcher)
    failed: list[object] = []
    Deferred.fromCoroutine(pages.read_page(WHOLE)).addErrback(failed.append)
    matcher.waiting.pop().errback(UnknownSubscription("it took too long"))
    assert len(failed) == 1
    assert matcher.known == set()


def of_two_origins(refused: int) -> list[LoggedEvent]:
    """One is refused."""
    events = [attrs.evolve(each, origin=("far", "own")[each.offset % 2]) for each in EVENTS]
    code = make_placeholder("not-valid", b"<x/>")
    return [attrs.evolve(e, document=code) if e.offset == refused else e for e in events]


def test_an_old_reader_gets_events_up_to_the_first_placeholder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"{__name__}.EVENTS", of_two_origins(refused=4))
    request = LogPageRequest(
        *(WHOLE.pattern, WHOLE.query, 2, {"own": ((0, 0), (1, 5)), "far": ((0, 0), (1, 6))}),
        allow_partial=True,
    )
    log = Log(coverage=Coverage({"own": (1, 5), "far": (1, 6)}))
    (page,) = ask(pages_of(log, Matcher()), request)
    assert [event.offset for event in page.events] == [1, 2, 3, 4, 5, 6]
    request = attrs.evolve(request, placeholders=False)
    (page,) = ask(pages_of(log, Matcher()), request)
    assert [event.offset for event in page.events] == [1, 2, 3, 5]
    assert page.reached == {"own": (1, 5), "far": (1, 3)}
    ranges = {"own": ((1, 3), (1, 5)), "far": ((1, 3), (1, 6))}
    (page,) = ask(pages_of(log, Matcher()), attrs.evolve(request, ranges=ranges, serial=5))
    assert [event.offset for event in page.events] == [5]
    assert page.reached == {"own": (1, 5)}


def test_a_log_with_a_missing_part_returns_only_own_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # An event of `far` may have come as one of `gone`.
    names = ("own", "far", "gone")
    events = [attrs.evolve(each, origin=names[each.offset % 3]) for each in EVENTS]
    monkeypatch.setattr(f"{__name__}.EVENTS", events)
    marks: dict[str, Mark] = {"own": (1, 6), "far": (1, 4), "gone": (1, 5)}
    flows = Position({"far": (1, 0), "gone": (1, 0)})
    stored = DurableSubscription(">", "true()", {}, Position(), 0, active_from=flows)
    request = attrs.evolve(WHOLE, ranges={name: ((1, 0), marks[name]) for name in names})

    def page(log: Log, request: LogPageRequest) -> tuple[list[int], set[str]]:
        (found,) = ask(pages_of(log, Matcher(), stored), request)
        return [event.offset for event in found.events], {*found.reached}

    whole = Log(coverage=Coverage(marks))
    assert page(whole, request) == ([1, 2, 3, 4, 5, 6], {*names})
    lacking = Log(coverage=Coverage(marks), begins_after={"gone": (1, 2)})
    assert page(lacking, request) == ([3, 6], {"own"})
    # Events that the reader had, or that never came, are not missing.
    assert page(
        lacking, attrs.evolve(request, ranges={**request.ranges, "gone": ((1, 2), (1, 5))})
    ) == ([1, 3, 4, 5, 6], {*names})
    never = Log(coverage=Coverage({"own": (1, 6), "far": (1, 4)}), begins_after={"gone": (1, 2)})
    assert page(never, request) == ([1, 3, 4, 6], {"own", "far"})
    # An earlier page ended at damage repaired since.
    assert page(whole, attrs.evolve(request, serial=4)) == ([], set())
    behind = {"own": ((1, 3), (1, 6)), "far": ((1, 1), (1, 4)), "gone": ((1, 1), (1, 5))}
    assert page(whole, attrs.evolve(request, ranges=behind, serial=4)) == ([4, 6], {"own", "far"})


def test_a_replica_page_for_an_old_reader_ends_before_a_placeholder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [attrs.evolve(each, origin="far") for each in of_two_origins(refused=4)]
    monkeypatch.setattr(f"{__name__}.EVENTS", events)
    log = Log(replica_spans={"far": ReplicaSpan((0, 0), (1, 6))})
    request = attrs.evolve(WHOLE, ranges={"far": ((0, 0), (1, 6))}, placeholders=False)
    (page,) = ask(pages_of(log, Matcher()), request)
    assert [event.offset for event in page.events] == [1, 2, 3]
    assert (page.reached, page.next_serial) == ({"far": (1, 3)}, 0)


def test_events_to_be_logged_elsewhere_are_not_matched() -> None:
    class Nobody(Matcher):
        async def select(self, *_: Any) -> list[bool]:
            raise AssertionError

    request = attrs.evolve(WHOLE, as_logged=True)
    (page,) = ask(pages_of(Log(), Nobody()), request)
    assert page.events == EVENTS
