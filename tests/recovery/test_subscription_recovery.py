"""One recovery with simulated sources that answer at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.archive.interval import difference
from broker.cluster.address import Address
from broker.delivery.recovery_contract import LostRange, MarkRange, RecoveryRequest
from broker.errors import (
    ArchiveUnavailable,
    BrokerError,
    EngineUnavailable,
    NotConnected,
    Overloaded,
    ReplayTooLarge,
)
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import parse_query
from broker.queue_memory import QueueMemory
from broker.recovery.archive_access import ArchiveAccess, Coverage
from broker.recovery.context import RecoveryContext
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.subscription_recovery import SubscriptionRecovery
from broker.replay.request import ReplayRequest
from tests.recovery.test_log_merge import logged

OWN, GONE = "own", "gone"
PATIENCE = 60.0
KEEPER = Address(("c",), "keeper")
#: The publisher moved from a dead node to this one.
EVENTS = {
    GONE: [logged(GONE, n, 10 * n, "p", n) for n in (1, 2, 3)],
    OWN: [logged(OWN, n, 100 + n, "p", 3 + n) for n in (1, 2, 3)],
}


def lying_in(origin: str, wanted: MarkRange) -> list[LoggedEvent]:
    after, upto = wanted
    return [e for e in EVENTS[origin] if e.mark > after and (upto is None or e.mark <= upto)]


@attrs.define
class Log:
    has: Sequence[str]
    is_there: bool = True
    begins: Mark = (0, 0)
    """Retention has removed earlier events."""
    origin: str = GONE
    scraps: Sequence[int] = ()
    """Offsets of other origins in an incomplete log."""
    asked: list[LogPageRequest] = attrs.field(factory=list)

    def has_log_or_replica(self, origin: str) -> bool:
        return origin in self.has

    async def select_events(self, request: LogPageRequest, events: Any) -> list[LoggedEvent]:
        cleared = 2 if request.as_logged else request.clearance
        return [event for event in events if event.level <= cleared]

    async def read_page(self, request: LogPageRequest, *, wait: bool = False) -> Page:
        self.asked.append(request)
        events: list[LoggedEvent] = []
        reached, begins = dict[str, Mark](), dict[str, Mark]()
        for origin, each in request.ranges.items():
            if origin in self.has and each[0] < self.begins:
                begins[origin] = self.begins
            elif origin in self.has or request.allow_partial:
                whole = origin in self.has
                events += [e for e in lying_in(origin, each) if whole or e.offset in self.scraps]
                reached[origin] = EVENTS[origin][-1].mark
        return Page(await self.select_events(request, events), reached, 0, begins=begins)

    def fetch_page(self, node: Address, request: LogPageRequest) -> Deferred[Page]:
        if not self.is_there:
            return fail(NotConnected("there is no way to it"))
        page = Deferred.fromCoroutine(self.read_page(request))
        return page.addCallback(lambda page: attrs.evolve(page, origin=self.origin))


@attrs.define
class Archived:
    asked: list[ReplayRequest] = attrs.field(factory=list)
    fails: int = 0
    refuses: BrokerError | None = None
    damaged: frozenset[int] = frozenset()
    """Unreadable offsets of the dead origin."""
    heals: bool = False
    """True if these may be written again."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        self.asked.append(request)
        if self.refuses is not None:
            return OneReplay([], False, self.refuses)
        found = [e for o, each in request.ranges.items() for e in lying_in(o, each)]
        holes = [e for e in found if e.origin == GONE and e.offset in self.damaged]
        found = sorted((e for e in found if e not in holes), key=lambda e: e.arrival)
        self.fails -= 1
        found = [event for event in found if event.level <= request.clearance]
        lost = [(e.origin, (1, e.offset - 1), e.mark) for e in holes]
        return OneReplay(found, self.fails >= 0, lost=lost)

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        found = {o: [((0, 0), EVENTS[o][-1].mark)] for o in after}
        if self.damaged and GONE in found:
            taken = [((1, n - 1), (1, n)) for n in self.damaged]
            found[GONE] = list(difference(found[GONE], taken))
        return succeed(Coverage(found, frozenset([GONE] if self.heals else [])))


@attrs.define
class OneReplay:
    events: list[LoggedEvent]
    fails: bool
    refused: BrokerError | None = None
    scanned_rows: tuple[int, int] = (0, 0)
    lost: Sequence[tuple[str, Mark, Mark]] = ()
    upto: Mark = (1, 3)

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        if self.refused is not None:
            return fail(self.refused)
        if self.fails and len(self.events) <= 2:
            raise NotConnected("the process has ended")
        events, self.events = self.events[:2], self.events[2:]
        return succeed(events)

    def end_marks(self) -> Mapping[str, Mark]:
        return dict.fromkeys(EVENTS, self.upto)

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        return self.lost

    def cancel(self) -> None:
        """It does not run by itself."""


class Behind(Archived):
    """It has the first two events of each origin."""

    def start_replay(self, request: ReplayRequest) -> OneReplay:
        found = super().start_replay(request)
        return OneReplay([e for e in found.events if e.offset <= 2], found.fails, upto=(1, 2))

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        return succeed(Coverage({origin: [((0, 0), (1, 2))] for origin in after}))


def recovered(
    archive: Archived | None,
    keeper: Log,
    ranges: Mapping[str, MarkRange],
    *,
    open_ended: bool = False,
    clock: Clock | None = None,
    known: Mapping[str, Mark] | None = None,
    busy: int = 0,
    scraps: Sequence[int] = (),
    elsewhere: Any = None,
    others: bool = False,
    warm: bool = True,
    clearance: int = 2,
    former: str = "",
    last: int = 0,
    memory: QueueMemory | None = None,
) -> SubscriptionRecovery:
    access = None
    if archive is not None:
        nothing: Any = lambda *_: succeed(None)  # noqa: E731 - what is not asked here
        access = ArchiveAccess(
            *(cast(Any, archive), archive.get_coverage, nothing, lambda: None, 1.0),
            is_warm=lambda: warm,
        )
    context = RecoveryContext(
        OWN,
        cast(Any, Log([OWN], scraps=scraps)),
        cast(Any, keeper),
        lambda origin: [KEEPER] if origin == GONE and keeper.is_there else [],
        *(lambda _: False, access, clock or Clock(), PATIENCE, elsewhere),
        queue_memory=memory or QueueMemory(),
    )
    missed = RecoveryRequest(
        *(StreamPattern.parse(">"), parse_query("true()"), clearance, ranges, known or {}),
        is_open_ended=open_ended,
        all_origins=others,
        previous_address=former,
        last=last,
    )
    return SubscriptionRecovery(missed, context, busy)


def now(page: Deferred[Sequence[LoggedEvent]]) -> Sequence[LoggedEvent]:
    pages: list[Sequence[LoggedEvent]] = []
    page.addCallback(pages.append)
    assert pages, "it waits for something"
    return pages[0]


def offsets(page: Deferred[Sequence[LoggedEvent]]) -> list[int]:
    return [event.offset for event in now(page)]


def all_of(
    recovery: SubscriptionRecovery, lost: list[LostRange] | None = None
) -> list[tuple[str, int]]:
    """Return (origin, offset) of all events; `lost` gets the losses."""
    got: list[LoggedEvent] = []
    losses = [] if lost is None else lost
    while page := now(recovery.next_events()):
        losses += recovery.preceding_losses()
        got += page
    losses += recovery.remaining_losses()
    return [(e.origin, e.offset) for e in got]


WHOLE: dict[str, MarkRange] = {GONE: ((0, 0), (1, 3)), OWN: ((0, 0), (1, 3))}
FIRST_TWO: MarkRange = ((0, 0), (1, 2))
IN_ORDER = [(GONE, 1), (GONE, 2), (GONE, 3), (OWN, 1), (OWN, 2), (OWN, 3)]


@pytest.mark.parametrize("end", [(1, 3), None], ids=["known", "unknown"])
def test_logs_do_not_come_before_events_that_only_the_archive_has(end: Mark | None) -> None:
    """A replica of the dead node had to drop events."""
    archive = Archived()
    recovery = recovered(archive, Log([]), {**WHOLE, GONE: ((0, 0), end)})
    assert all_of(recovery) == IN_ORDER
    assert recovery.remaining_losses() == []
    assert len(archive.asked) == 1


class Shared(Archived):
    others: frozenset[str] = frozenset()

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        told = super().get_coverage(after)
        return told.addCallback(lambda c: attrs.evolve(c, other_origins=self.others, is_known=True))


@pytest.mark.parametrize("warm", [False, True])
def test_the_whole_past_comes_from_complete_logs(warm: bool) -> None:
    archive = Shared()
    recovery = recovered(archive, Log([GONE]), WHOLE, others=True, warm=warm)
    assert all_of(recovery) == IN_ORDER
    assert archive.asked == []
    assert recovery.remaining_losses() == []


def test_the_whole_past_comes_from_an_archive_with_other_origins() -> None:
    archive = Shared()
    archive.others = frozenset({"another"})
    recovery = recovered(archive, Log([GONE]), WHOLE, others=True)
    assert all_of(recovery) == IN_ORDER
    assert len(archive.asked) == 1


@pytest.mark.parametrize("warm", [False, True])
def test_own_events_do_not_start_the_replayer(warm: bool) -> None:
    archive = Shared()
    ranges: dict[str, MarkRange] = {OWN: ((0, 0), (1, 3))}
    recovery = recovered(archive, Log([]), ranges, others=True, warm=warm, busy=1 << 20)
    assert all_of(recovery) == [(OWN, 1), (OWN, 2), (OWN, 3)]
    assert len(archive.asked) == warm


@pytest.mark.parametrize("clearance", [0, 1, 2])
@pytest.mark.parametrize(
    ("archive", "keeper", "said"),
    [
        (Archived, Log([]), {}),
        (None, Log([GONE]), {}),
        (None, Log([GONE], begins=(1, 1)), {}),
        (None, Log([GONE, OWN]), {"former": str(KEEPER)}),
        (None, Log([]), {"scraps": (1, 2, 3)}),
    ],
    ids=["archive", "logs", "ends", "former", "scraps"],
)
def test_no_source_yields_events_above_the_clearance(
    archive: Callable[[], Archived] | None,
    keeper: Log,
    said: dict[str, Any],
    clearance: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for origin in EVENTS:
        levels = [attrs.evolve(event, level=event.offset - 1) for event in EVENTS[origin]]
        monkeypatch.setitem(EVENTS, origin, levels)
    recovery = recovered(archive and archive(), keeper, WHOLE, clearance=clearance, **said)
    came = all_of(recovery)
    cleared = range(1, clearance + 2)
    # Logs may lack the beginning of the dead origin.
    of_the_gone = [offset for offset in cleared if offset > keeper.begins[1]]
    assert sorted(came) == [(GONE, n) for n in of_the_gone] + [(OWN, n) for n in cleared]


def test_a_broken_replay_is_continued() -> None:
    archive = Archived(fails=1)
    recovery = recovered(archive, Log([]), WHOLE)
    assert all_of(recovery) == IN_ORDER
    assert len(archive.asked) == 2
    assert archive.asked[1].ranges == {OWN: ((1, 1), (1, 3))}


def test_the_end_of_a_log_comes_without_its_beginning() -> None:
    log = Log([GONE], begins=(1, 2))
    recovery = recovered(None, log, WHOLE)
    lost: list[LostRange] = []
    assert all_of(recovery, lost) == [(OWN, 1), (OWN, 2), (OWN, 3), (GONE, 3)]
    assert lost == [LostRange(GONE, (0, 0), (1, 2), "lost")]


AGAIN = (Overloaded("full"), ArchiveUnavailable("away"), EngineUnavailable("broken"))


@pytest.mark.parametrize("why", AGAIN, ids=str)
def test_an_unavailable_archive_is_retried(why: BrokerError) -> None:
    clock, archive = Clock(), Archived(refuses=why)
    recovery = recovered(archive, Log([]), {**WHOLE, GONE: ((0, 0), None)}, clock=clock)
    first = recovery.next_events()
    clock.pump([1.0] * int(PATIENCE - 10))
    assert not first.called
    archive.refuses = None
    clock.advance(8.0)
    assert offsets(first) == [1, 2]
    assert offsets(recovery.next_events()) == [3, 1]
    # Its patience starts again after each event.
    assert offsets(recovery.next_events()) == [2, 3]
    assert offsets(recovery.next_events()) == []
    assert recovery.remaining_losses() == []


@pytest.mark.parametrize("why", AGAIN, ids=str)
def test_a_range_of_an_unreadable_archive_is_not_lost(why: BrokerError) -> None:
    clock, archive = Clock(), Archived(refuses=why)
    recovery = recovered(archive, Log([]), {**WHOLE, GONE: ((0, 0), None)}, clock=clock)
    failed: list[Failure] = []
    recovery.next_events().addErrback(failed.append)
    clock.pump([1.0] * int(PATIENCE - 1))
    assert not failed
    clock.pump([1.0] * 10)
    assert failed[0].value is why


def test_too_large_a_request_fails_at_once() -> None:
    archive = Archived(refuses=ReplayTooLarge("too much"))
    recovery = recovered(archive, Log([]), {GONE: ((0, 0), (1, 3))})
    failed: list[Failure] = []
    recovery.next_events().addErrback(failed.append)
    assert isinstance(failed[0].value, ReplayTooLarge)
    assert recovery.has_failed
    assert len(archive.asked) == 1


@pytest.mark.parametrize("archive", [None, Archived(refuses=ReplayTooLarge("too much"))])
def test_events_of_several_logs_come_in_publisher_order(
    archive: Archived | None,
) -> None:
    recovery = recovered(archive, Log([GONE]), WHOLE, busy=1_000_000)
    assert all_of(recovery) == IN_ORDER
    assert recovery.remaining_losses() == []
    assert archive is None or len(archive.asked) == 1


def test_a_range_without_a_source_is_lost() -> None:
    recovery = recovered(None, Log([]), WHOLE)
    assert all_of(recovery) == [(OWN, 1), (OWN, 2), (OWN, 3)]
    assert recovery.remaining_losses() == [LostRange(GONE, (0, 0), (1, 3), "lost")]


@pytest.mark.parametrize("fails", [0, 1])
def test_archived_events_behind_a_known_end_are_recovered(
    fails: int,
) -> None:
    """The other node may have died with events that it had not sent."""
    archive = Archived(fails=fails)
    recovery = recovered(archive, Log([]), dict.fromkeys(EVENTS, FIRST_TWO), open_ended=True)
    assert all_of(recovery) == [(GONE, 1), (GONE, 2), (GONE, 3), (OWN, 1), (OWN, 2)]
    assert recovery.open_range_ends() == {GONE: (1, 3)}
    assert recovery.remaining_losses() == []


def test_a_range_with_an_end_ends_there() -> None:
    recovery = recovered(Archived(), Log([]), dict.fromkeys(EVENTS, FIRST_TWO))
    assert all_of(recovery) == [(GONE, 1), (GONE, 2), (OWN, 1), (OWN, 2)]
    assert recovery.open_range_ends() == {}
