"""Pages of a log for one query, while the log and those who ask change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed

from broker.content.query.query import Query, parse_query
from broker.errors import UnknownSubscription
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.recovery.log_pages import LogPages, Page, PageRequest
from broker.store.coverage import Coverage
from broker.store.kept import KeptSpan
from broker.store.records import LoggedEvent
from tests.recovery.test_log_merging import logged

EVENTS = [attrs.evolve(logged("own", n, n, "p", n), serial=n) for n in range(1, 7)]
WHOLE = PageRequest(StreamPattern.parse(">"), parse_query("true()"), 2, {"own": ((0, 0), (1, 6))})


@attrs.define
class Bounds:
    last: int = len(EVENTS)


@attrs.define
class Log:
    """A log from which retention may take events while it is read."""

    taken: int = 0
    """How many the next read finds gone."""
    origin: str = "own"
    since: dict[str, Mark] = attrs.field(factory=dict)
    coverage: Coverage = attrs.field(factory=lambda: Coverage({"own": (1, 6)}))
    bounds: Bounds = attrs.field(factory=Bounds)
    kept: dict[str, KeptSpan] = attrs.field(factory=dict)

    def first_after(self, origin: str, mark: Mark) -> int:
        return mark[1] + 1

    def read(self, start: int, max_events: int, max_bytes: int) -> Deferred[list[LoggedEvent]]:
        if self.taken:
            self.since = {"own": (1, self.taken)}
        return succeed([event for event in EVENTS if event.serial >= max(start, self.taken + 1)])

    def read_kept(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> Deferred[list[LoggedEvent]]:
        if self.taken:
            span = self.kept[origin]
            self.kept = {origin: span._replace(after=(1, self.taken))}
        gone = max(after, (1, self.taken))
        return succeed([attrs.evolve(e, origin=origin) for e in EVENTS if e.mark > gone])


class Matcher:
    """Knows who asks; an answer comes when it is let go."""

    def __init__(self) -> None:
        self.known: set[int] = set()
        self.given = 0
        self.waiting: list[Deferred[None]] = []
        self.waits = False

    def subscribe(self, pattern: StreamPattern, query: Query, client: str = "") -> int:
        self.given += 1
        self.known.add(self.given)
        return self.given

    def unsubscribe(self, number: int) -> None:
        self.known.remove(number)

    async def select(
        self, number: int, documents: Sequence[bytes], liveness: Liveness
    ) -> list[bool]:
        if self.waits:
            waiting: Deferred[None] = Deferred()
            self.waiting.append(waiting)
            await waiting
        if number not in self.known:
            raise UnknownSubscription(f"nobody has {number}")
        return [True] * len(documents)


class Durables:
    def get(self, client_id: str, name: str) -> None:
        return None


def pages_of(log: Log, matcher: Matcher) -> LogPages:
    return LogPages(cast(Any, log), cast(Any, matcher), matcher.select, cast(Any, Durables()))


def ask(pages: LogPages, request: PageRequest = WHOLE) -> list[Page]:
    got: list[Page] = []
    Deferred.fromCoroutine(pages.page(request)).addCallback(got.append)
    return got


def test_all_of_a_range_comes_and_nobody_is_left_in_the_matcher() -> None:
    matcher = Matcher()
    (page,) = ask(pages_of(Log(), matcher))
    assert [event.offset for event in page.events] == [1, 2, 3, 4, 5, 6]
    assert page.reached == {"own": (1, 6)} and page.next == 0
    assert matcher.known == set()


@pytest.mark.parametrize("clearance", [0, 1, 2])
@pytest.mark.parametrize("kept", [False, True], ids=["own", "copies"])
def test_a_page_leaves_out_and_counts_what_is_above_the_clearance(
    clearance: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        f"{__name__}.EVENTS",
        [attrs.evolve(event, level=event.offset // 3) for event in EVENTS],
    )
    log, request = Log(), attrs.evolve(WHOLE, clearance=clearance)
    if kept:
        log.kept = {"gone": KeptSpan((0, 0), (1, 6))}
        request = attrs.evolve(request, ranges={"gone": ((0, 0), (1, 6))})
    ((page),) = ask(pages_of(log, Matcher()), request)
    cleared = [n for n in range(1, 7) if n // 3 <= clearance]
    assert [event.offset for event in page.events] == cleared
    assert page.denied == 6 - len(cleared)
    assert page.reached == dict.fromkeys(request.ranges, (1, 6))


def test_who_asks_at_the_same_time_is_not_in_the_way() -> None:
    matcher = Matcher()
    matcher.waits = True
    pages = pages_of(Log(), matcher)
    one, other = ask(pages), ask(pages)
    while matcher.waiting:
        matcher.waiting.pop().callback(None)
    assert [len(page.events) for page in (*one, *other)] == [6, 6]
    assert matcher.known == set()


def test_what_retention_takes_while_it_is_read_is_not_passed_over() -> None:
    (page,) = ask(pages_of(Log(taken=3), Matcher()))
    assert (page.events, page.reached, page.next) == ([], {}, 0)


def test_copies_that_go_while_they_are_read_are_not_passed_over() -> None:
    request = attrs.evolve(WHOLE, ranges={"far": ((1, 1), (1, 6))})
    kept = {"far": KeptSpan((0, 0), (1, 6))}
    (page,) = ask(pages_of(Log(kept=dict(kept)), Matcher()), request)
    assert [event.offset for event in page.events] == [2, 3, 4, 5, 6]
    (page,) = ask(pages_of(Log(taken=3, kept=dict(kept)), Matcher()), request)
    assert (page.events, page.reached, page.next) == ([], {}, 0)


def test_a_log_that_lacks_the_beginning_says_where_it_begins() -> None:
    own = PageRequest(*(WHOLE.pattern, WHOLE.query, 2), {"own": ((0, 0), (1, 6))})
    (page,) = ask(pages_of(Log(since={"own": (1, 2)}), Matcher()), own)
    assert (page.events, page.reached, page.begins) == ([], {}, {"own": (1, 2)})
    far = attrs.evolve(own, ranges={"far": ((0, 0), (1, 6))})
    kept = {"far": KeptSpan((1, 4), (1, 6))}
    (page,) = ask(pages_of(Log(kept=kept), Matcher()), far)
    assert (page.events, page.reached, page.begins) == ([], {}, {"far": (1, 4)})
    (page,) = ask(pages_of(Log(), Matcher()), far)
    assert page.begins == {}


def test_an_end_of_a_query_leaves_nobody_behind() -> None:
    matcher = Matcher()
    matcher.waits = True
    pages = pages_of(Log(), matcher)
    failed: list[object] = []
    Deferred.fromCoroutine(pages.page(WHOLE)).addErrback(failed.append)
    matcher.waiting.pop().errback(UnknownSubscription("it took too long"))
    assert len(failed) == 1
    assert matcher.known == set()
