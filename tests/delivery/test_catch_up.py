from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from broker.delivery.commit_share import QueueLimits
from broker.delivery.feed import Feed, FeedState
from broker.delivery.session_delivery import SessionDelivery
from broker.dtd.reference import DtdReference
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.ingest.late_validation import UNKNOWN_TYPE, EventRun
from broker.log.damage import Damage, DamageFound, DamageKind, Span
from broker.log.history import BranchLoss, HistoryChain
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import DtdNeeded, TypeMissing
from broker.wire.messages import Gap, Progress
from tests.delivery.test_session_delivery import FakeLog, FakeWriter, event

MISSING = TypeMissing(DtdReference("t", "2.0"), "")
ALL = [1, 2, 3, 4, 5, 6]


@attrs.define
class Late:
    """Codes by offset; None while the DTD is missing."""

    codes: dict[int, str | None]
    wanted: bool = True
    comes_at_once: bool = False
    settled: list[Callable[[bool], object]] = attrs.field(factory=list)

    def split_runs(self, events: list[LoggedEvent]) -> Iterator[EventRun]:
        run: list[LoggedEvent] = []
        for each in events:
            if each.offset in self.codes:
                if run:
                    yield EventRun(run)
                    run = []
                yield EventRun([each], needs_validation=True)
            else:
                run.append(each)
        if run:
            yield EventRun(run)

    def rejection_code(self, run: EventRun) -> str | None:
        code = self.codes[run.events[0].offset]
        if code is None:
            raise DtdNeeded(MISSING)
        return code or None

    def may_match(self, *_: object) -> bool:
        return self.wanted

    def find_first_of_type(self, run: EventRun, _: TypeMissing) -> int:
        return next((i for i, each in enumerate(run.events) if each.document == b"late"), 0)

    def call_when_settled(self, _: TypeMissing, settled: Callable[[bool], object]) -> None:
        if self.comes_at_once:
            self.codes = dict.fromkeys(self.codes, "")
            settled(True)
        else:
            self.settled.append(settled)


@attrs.define
class Repairs:
    given_up: bool = False
    begun: list[Deferred[None]] = attrs.field(factory=list)

    def is_given_up(self, _: Damage) -> bool:
        return self.given_up

    def begin_repair(self, _: Damage) -> Deferred[None]:
        self.begun.append(Deferred())
        return self.begun[-1]


class Log(FakeLog):
    def __init__(self, *events: LoggedEvent) -> None:
        super().__init__(*events)
        self.damage: Damage | None = None
        self.repairs = Repairs()

    def read(self, start: int, most: int, _: int, wait: bool = True) -> Deferred[list[LoggedEvent]]:
        assert not wait, "others wait for their turn"
        damage = self.damage
        if damage is None or start > damage.last:
            return super().read(start, most, _, wait)
        if start >= damage.first:
            raise DamageFound(damage)
        return super().read(start, damage.first - start, _, wait)


class Setting:
    def __init__(self, late: Late | None = None, *, clearance: int = 2) -> None:
        self.writer, self.log = FakeWriter(), Log(*(event(n) for n in ALL))
        self.late = late
        self.undescribed: set[int] = set()
        self.failures: list[Any] = []
        self.delivery = SessionDelivery(
            self.writer,
            clearance=clearance,
            limits=QueueLimits(events=3, bytes=10_000, delivery=1000),
            log=cast(Any, self.log),
            select=self.select,
            on_failed=lambda feed, failure: self.failures.append(failure),
            clock=Clock(),
            late_validator=cast(Any, late),
        )
        self.feed = Feed(
            1, matcher_number=1, is_durable=True, cut=0, cursor=1, newest_at_start=(1, 0)
        )
        self.feed.pattern = StreamPattern.parse("s")
        self.feed.reported_marks = {"n": (1, 0)}
        self.feed.is_accepted = True

    async def select(self, _: int, run: EventRun, liveness: Liveness) -> list[bool]:
        documents = [event.document for event in run.events]
        if b"late" in documents and self.undescribed:
            raise DtdNeeded(MISSING)
        return [True] * len(documents)

    def start(self) -> Setting:
        self.delivery.add_feed(self.feed)
        self.delivery.start_feed(1)
        return self

    @property
    def came(self) -> list[int | tuple[int, str]]:
        """Offsets of events, and of gaps with their reasons, in order."""
        found: list[int | tuple[int, str]] = []
        for each in self.writer.out:
            if isinstance(each, Gap):
                assert each.count == each.last[1] - each.first[1] + 1
                found += [(n, each.reason) for n in range(each.first[1], each.last[1] + 1)]
            elif isinstance(each, list):
                found += each
        return found

    def outcomes(self) -> tuple[int, int, int, int]:
        self.delivery.update_outcomes()
        outcomes = self.feed.outcomes
        assert outcomes.seen == outcomes.delivered + outcomes.filtered + outcomes.denied
        return outcomes.delivered, outcomes.filtered, outcomes.denied, outcomes.gone


def test_a_refused_event_is_a_gap_in_its_place() -> None:
    it = Setting(Late({3: "too-large", 6: "too-deep"})).start()
    assert it.came == [1, 2, (3, "too-large"), 4, 5, (6, "too-deep")]
    assert it.outcomes() == (4, 0, 0, 2)
    assert it.feed.state is FeedState.LIVE and it.feed.reported_marks == {"n": (1, 6)}


@pytest.mark.parametrize("level", [0, 1, 2])
def test_no_gap_reveals_a_rejected_event_above_the_clearance(level: int) -> None:
    it = Setting(Late({3: "too-large"}), clearance=1)
    it.log.events[2] = event(3, level=level)
    it.start()
    assert it.came == [1, 2, *([(3, "too-large")] if level < 2 else []), 4, 5, 6]
    assert it.outcomes() == (5, 0, level == 2, level < 2)
    assert it.feed.state is FeedState.LIVE


def test_a_position_moves_over_skipped_events_but_not_over_the_next() -> None:
    it = Setting(late := Late({3: "too-large", 4: None}), clearance=1)
    it.log.events[2] = event(3, level=2)
    it.start()
    it.delivery.send_progress()
    assert it.writer.out[-1] == Progress(((1, (("n", 1, 3),)),))
    late.codes[4] = ""
    late.settled[0](True)
    assert it.came == [1, 2, 4, 5, 6]


def test_no_gap_reveals_a_rejected_event_of_another_stream() -> None:
    it = Setting(Late({3: "too-large"}))
    it.feed.pattern = StreamPattern.parse("other")
    it.start()
    assert (3, "too-large") not in it.came and it.outcomes()[1] == 1


@pytest.mark.parametrize("found", [True, False])
def test_events_behind_one_without_a_dtd_wait_for_it(found: bool) -> None:
    it = Setting(late := Late({3: None})).start()
    assert it.came == [1, 2] and it.feed.awaits_dtd
    it.delivery.resume_after_commit()
    it.delivery.send_waiting()
    assert it.came == [1, 2] and len(late.settled) == 1
    late.codes[3] = ""
    late.settled[0](found)
    assert it.came == [1, 2, 3 if found else (3, UNKNOWN_TYPE), 4, 5, 6]
    assert it.outcomes() == (6, 0, 0, 0) if found else (5, 0, 0, 1)
    assert not it.feed.awaits_dtd and it.feed.state is FeedState.LIVE


def test_a_missing_dtd_is_no_gap_if_the_event_can_not_match() -> None:
    it = Setting(late := Late({3: None}, wanted=False)).start()
    assert it.came == [1, 2, 4, 5, 6] and late.settled == []
    assert it.outcomes() == (5, 1, 0, 0)
    assert it.feed.state is FeedState.LIVE


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("at", [1, 3, 6])
def test_events_before_one_without_a_dtd_are_sent_first(at: int, wanted: bool) -> None:
    it = Setting(late := Late({}, wanted=wanted))
    it.log.events[at - 1] = attrs.evolve(event(at), document=b"late")
    it.undescribed.add(at)
    it.start()
    before, behind = ALL[: at - 1], ALL[at:]
    assert it.came == (before if wanted else before + behind)
    it.undescribed.clear()
    for settled in late.settled:
        settled(True)
    assert it.came == (ALL if wanted else before + behind)
    assert it.outcomes() == (5 + wanted, not wanted, 0, 0)


def test_a_dtd_that_is_found_at_once_causes_no_wait() -> None:
    it = Setting(Late({3: None}, comes_at_once=True)).start()
    assert it.came == ALL and it.outcomes() == (6, 0, 0, 0)


@pytest.mark.parametrize(
    ("at", "gap"),
    [((1, 0), (4, 9)), ((1, 3), (4, 9))],
    ids=["behind", "at-the-branch"],
)
def test_a_loss_is_reported_between_the_events_around_it(at: Mark, gap: tuple[int, int]) -> None:
    # Offsets continue above those of the other branch.
    it = Setting()
    events = [*(event(n) for n in (1, 2, 3)), *(event(n, epoch=2) for n in (12, 13))]
    it.log.events = [attrs.evolve(each, serial=i) for i, each in enumerate(events, 1)]
    it.log.read = reads_by_serial(it.log)  # type: ignore[method-assign]
    loss = BranchLoss((2, 3), (2, 9), (1, 3), (1, 9), ((4, 9),))
    it.log.history_chain = HistoryChain([], [loss])
    it.feed.reported_marks = {"n": at}
    it.feed.cursor = at[1] + 1
    it.start()
    lost = [(n, "lost") for n in range(gap[0], gap[1] + 1)]
    assert it.came == [*range(at[1] + 1, 4), *lost, 12, 13]
    assert it.outcomes() == (5 - at[1], 0, 0, 6)
    it.delivery.report_losses()
    assert len(it.came) == 5 - at[1] + 6, "once"


def test_a_client_of_the_lost_branch_misses_only_its_later_events() -> None:
    it = Setting()
    events = [event(n, epoch=3) for n in (12, 13)]
    it.log.events = [attrs.evolve(each, serial=i) for i, each in enumerate(events, 1)]
    it.log.read = reads_by_serial(it.log)  # type: ignore[method-assign]
    it.log.history_chain = HistoryChain([], [BranchLoss((3, 3), (3, 9), (1, 3), (1, 9), ((4, 9),))])
    it.log.find_fork = lambda mark: (1, 3)  # type: ignore[method-assign]
    it.feed.reported_marks = {"n": (1, 7)}
    it.start()
    assert it.came == [(8, "lost"), (9, "lost"), 12, 13]


def test_a_loss_at_the_end_of_the_log_is_reported() -> None:
    it = Setting().start()
    assert it.feed.state is FeedState.LIVE
    it.log.history_chain = HistoryChain([], [BranchLoss((2, 6), (2, 9), (1, 6), (1, 9), ((7, 9),))])
    it.delivery.report_losses()
    assert it.came == [*ALL, (7, "lost"), (8, "lost"), (9, "lost")]
    it.delivery.report_losses()
    assert len(it.came) == 9
    assert it.outcomes() == (6, 0, 0, 3)


def reads_by_serial(log: Log) -> Callable[..., Deferred[list[LoggedEvent]]]:
    def read(start: int, most: int, _: int, wait: bool = True) -> Deferred[list[LoggedEvent]]:
        answer: Deferred[list[LoggedEvent]] = Deferred()
        answer.callback([each for each in log.events if each.serial >= start][:most])
        return answer

    return read


def damaged(first: int, last: int) -> Damage:
    span = Span("n", (1, first - 1), (1, last))
    return Damage("events", b"", first, last, DamageKind.HEAD, (span,))


@pytest.mark.parametrize("fails", [False, True])
def test_damaged_events_are_read_after_the_repair_or_are_a_gap(fails: bool) -> None:
    it = Setting()
    it.log.damage = damaged(3, 4)
    it.start()
    assert it.came == [1, 2] and len(it.log.repairs.begun) == 1
    it.delivery.resume_after_commit()
    it.delivery.send_waiting()
    assert len(it.log.repairs.begun) == 1, "it is being repaired"
    if fails:
        it.log.repairs.given_up = True
    else:
        it.log.damage = None
    it.log.repairs.begun[0].callback(None)
    gap = [(3, "damaged"), (4, "damaged")]
    assert it.came == [1, 2, *(gap if fails else (3, 4)), 5, 6]
    assert it.outcomes() == ((4, 0, 0, 2) if fails else (6, 0, 0, 0))
    assert it.feed.reported_marks == {"n": (1, 6)} and it.failures == []


def test_damage_at_the_end_of_the_log_is_reported_once() -> None:
    it = Setting()
    it.log.damage, it.log.repairs.given_up = damaged(5, 6), True
    it.start()
    gap = [(5, "damaged"), (6, "damaged")]
    assert it.came == [1, 2, 3, 4, *gap] and it.feed.reported_marks == {"n": (1, 6)}
    it.delivery.recover_or_report("n", (1, 4), (1, 6), "lost")
    assert it.came[4:] == gap


@pytest.mark.parametrize(("had", "told"), [((1, 4), False), ((1, 3), True)])
def test_damage_is_no_gap_if_the_client_has_the_events(had: Mark, told: bool) -> None:
    it = Setting()
    it.log.damage, it.log.repairs.given_up = damaged(3, 4), True
    it.feed.skip_marks = {"n": had}
    it.start()
    assert bool([each for each in it.came if isinstance(each, tuple)]) is told
    assert [each for each in it.came if isinstance(each, int)] == [5, 6]


def test_a_failed_repair_ends_the_subscription() -> None:
    it = Setting()
    it.log.damage = damaged(3, 4)
    it.start()
    it.log.repairs.begun[0].errback(ValueError("bug"))
    assert [type(each.value) for each in it.failures] == [ValueError]
