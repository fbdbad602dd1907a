from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, fail
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.relay_ingest import MOST_WAITING_BYTES, RelayIngest
from broker.cluster.relayed_types import RelayedTypes
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_content import ZSTD
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.cluster.traffic.sender import OriginSender
from broker.cluster.types.awaited_announcements import AwaitedAnnouncements
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError, LogUnavailable, Overloaded
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.ingest.pending_dtds import PendingDtds
from broker.log.deduplication import Deduplication
from broker.log.known_flows import KnownFlows
from broker.log.withheld_flows import WithheldFlows
from broker.matching.contract import Accepted, TypeMissing
from broker.streams.contract import CarriedEvent

HOME, OWN = Address(("c",), "home"), Address(("c",), "own")


class FakeMatcher:
    """Documents are sequence numbers; some can not be matched."""

    def __init__(self) -> None:
        self.broken: set[bytes] = set()
        self.most = 100
        """Documents per slice."""
        self.after: Callable[[], object] = lambda: None

    def match(self, documents: Sequence[bytes], *_: Any, marked: bool) -> list[Any]:
        if self.broken & set(documents):
            raise ZeroDivisionError
        self.after()
        return [
            Accepted(
                Header(
                    EventId("p", 1, int(each), 1), "s", "t", "1", SecurityLevel.LOW, Liveness.LIVE
                ),
                (7,),
            )
            for each in documents[: self.most]
        ]


class FakeLog:
    flows = KnownFlows("own", {}, WithheldFlows({"own/q": (((1, 0), None),)}, frozenset({"own/q"})))

    def __init__(self) -> None:
        self.deduplication = Deduplication(lambda _: None, 8)
        self.pending: list[tuple[Any, Any]] = []
        self.logged: list[Mark] = []
        self.resting = False

    def check_available(self) -> None:
        if self.resting:
            raise LogUnavailable("resting")

    def has_origin(self, origin: str) -> bool:
        return True

    def append_relayed(self, relayed: Any, done: Any) -> None:
        self.pending.append((relayed, done))

    def commit(self, *, fails: bool = False) -> None:
        pending, self.pending = self.pending, []
        if fails:
            self.deduplication.clear()
        for relayed, done in pending:
            if fails:
                done(LogUnavailable("full"))
            else:
                self.logged += [mark for mark, *_ in relayed.entries]
                done([object() for _ in relayed.entries])


class Setting:
    def __init__(self) -> None:
        self.log, self.matcher, self.clock = FakeLog(), FakeMatcher(), Clock()
        self.settled: list[tuple[int, BrokerError | None]] = []
        self.committed: list[int] = []
        unused: Any = None
        log: Any = self.log
        matcher: Any = self.matcher
        quarantine: Any = self
        self.ingest = RelayIngest(
            matcher=matcher,
            event_log=log,
            quarantine=quarantine,
            clock=self.clock,
            wall_clock=lambda: 0,
            on_committed=lambda events, matches: self.committed.append(len(events)),
            report_dropped=lambda *_: None,
            report_gap=lambda *_: None,
            variants=lambda *_: {},
            types=RelayedTypes(
                unused,
                PendingDtds(unused, self.clock, 600.0),
                announcements=AwaitedAnnouncements(self.clock, lambda *_: False),
                accept_undescribed=False,
            ),
            unvalidated_events=unused,
            reread_from_log=lambda *_: None,
            has_local_match=lambda numbers: True,
        )

    def take(self, first: int, last: int, origin: str = "far", *, is_copy: bool = False) -> None:
        """Ingest the events with these numbers, in a range that ends with them."""
        carried = [CarriedEvent((1, n), b"\x90", b"%d" % n) for n in range(first, last + 1)]
        told = Range(OWN, (1, first - 1), (1, last))
        runs = [(len(carried), (0,))]
        frame = OriginSender(origin, HOME, (1, 0)).make_frame(
            [told], carried, [0] * len(carried), runs
        )
        self.ingest.log_range(
            ReceivedRange(told, frame, 0, is_copy=is_copy),
            (1, first - 1),
            lambda error: self.settled.append((last, error)),
        )


def frame_of(*numbers: int, body: bytes | None = None) -> Frame:
    carried = [CarriedEvent((1, n), b"\x90", b"%d" % n) for n in numbers]
    told = Range(Address(("c",), ""), (1, 0), (1, 9))
    made = OriginSender("far", HOME, (1, 0)).make_frame(
        [told], carried, [0] * len(carried), [(len(carried), (0,))] if carried else []
    )
    return made if body is None else attrs.evolve(made, encoding=ZSTD, body=body)


def enters(setting: Setting, frame: Frame) -> list[str]:
    """Return the calls for a frame that enters a unit, in order."""
    said: list[str] = []
    setting.ingest.match_range(
        ReceivedRange(frame.ranges[0], frame, 0),
        lambda job: said.append("matched"),
        lambda: said.append("late"),
    )
    return said


def test_entering_ranges_are_matched_before_later_frames() -> None:
    setting = Setting()
    setting.ingest._slices._is_running = True
    said = enters(setting, frame_of(1))
    setting.ingest.wait_for_earlier(frame_of(2), lambda: said.append("followed"))
    assert said == []
    setting.ingest._slices._is_running = False
    setting.ingest._slices.run()
    assert said == ["matched", "followed"]
    setting.ingest.wait_for_earlier(frame_of(3), lambda: said.append("at once"))
    assert said[-1] == "at once"


def test_an_unmatchable_range_does_not_block_others() -> None:
    setting = Setting()
    assert enters(setting, frame_of(1, body=b"no zstd")) == ["late"]
    setting.matcher.broken.add(b"2")
    assert enters(setting, frame_of(2)) == ["late"]
    setting.ingest.waiting_bytes = MOST_WAITING_BYTES
    assert enters(setting, frame_of(3)) == ["late"]


def test_a_half_full_queue_or_an_unavailable_log_is_overload() -> None:
    setting = Setting()
    assert not setting.ingest.is_overloaded()
    setting.ingest.waiting_bytes = MOST_WAITING_BYTES // 2 + 1
    assert setting.ingest.is_overloaded()
    setting.ingest.waiting_bytes = 0
    setting.log.resting = True
    assert setting.ingest.is_overloaded()


def test_a_queue_that_waits_for_a_type_does_not_block_others() -> None:
    setting = Setting()
    looked_up: list[Deferred[None]] = []

    class Dtds:
        def lookup(self, *_: object) -> Deferred[None]:
            looked_up.append(Deferred())
            return looked_up[-1]

        def get(self, _: object) -> object:
            return self

    setting.ingest._types._lookups._dtds = cast(Any, Dtds())
    real = setting.matcher.match
    missing = TypeMissing(DtdReference("t", "1"), "")
    setting.matcher.match = lambda *_, marked: [missing]  # type: ignore[method-assign]
    first = enters(setting, frame_of(1))
    second = enters(setting, frame_of(2))
    followed: list[str] = []
    setting.ingest.wait_for_earlier(frame_of(3), lambda: followed.append("late"))
    assert first == second == followed == ["late"]
    setting.matcher.match = real  # type: ignore[method-assign]
    looked_up[0].callback(None)
    setting.clock.advance(1.0)
    assert first == second == ["late", "matched"]
    assert setting.ingest.waiting_bytes == 0


def test_ranges_after_a_failed_one_are_not_logged() -> None:
    setting = Setting()
    setting.take(1, 3)
    setting.log.resting = True
    setting.take(4, 6)
    setting.log.resting = False
    # Received before the failure of 4 to 6 was reported.
    assert [last for last, error in setting.settled if error] == [6]
    setting.log.commit()
    assert setting.log.logged == [(1, 1), (1, 2), (1, 3)]
    setting.take(4, 9)
    setting.log.commit()
    assert setting.log.logged == [(1, n) for n in range(1, 10)]
    assert setting.ingest.outcomes.not_taken == 3


@pytest.mark.parametrize("waits", [True, False])
def test_queued_jobs_fail_with_the_one_before_them(waits: bool) -> None:
    setting = Setting()
    setting.take(1, 3)
    if waits:
        # It is matched in a later slice, after the failed commit.
        setting.ingest._slices._is_running = True
    setting.take(4, 6)
    setting.log.commit(fails=True)
    setting.ingest._slices._is_running = False
    setting.ingest._slices.run()
    setting.log.commit()
    assert setting.log.logged == []
    assert [last for last, error in setting.settled if error] == [3, 6]
    assert setting.committed == []
    outcomes = setting.ingest.outcomes
    assert outcomes.received == outcomes.not_taken == 6


def test_an_event_that_crashes_the_matcher_does_not_block_other_origins(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setting = Setting()
    setting.matcher.broken.add(b"2")
    setting.take(1, 3)
    assert [(last, type(error)) for last, error in setting.settled] == [(3, LogUnavailable)]
    setting.matcher.broken.clear()
    setting.take(1, 3)
    setting.log.commit()
    assert setting.log.logged == [(1, 1), (1, 2), (1, 3)]
    assert setting.ingest.waiting_bytes == 0


def test_matched_events_are_appended_in_the_same_time_slice() -> None:
    setting = Setting()
    setting.matcher.most = 4
    given: list[int] = []

    def looked() -> None:
        given.append(sum(len(relayed.entries) for relayed, _ in setting.log.pending))

    setting.matcher.after = looked
    setting.take(1, 10)
    # All earlier matches are appended before the next slice is matched.
    assert given == [0, 4, 8]
    ranges = [(relayed.after, relayed.covered_upto) for relayed, _ in setting.log.pending]
    assert ranges == [((1, 0), (1, 4)), ((1, 4), (1, 8)), ((1, 8), (1, 10))]
    setting.log.commit()
    assert setting.log.logged == [(1, n) for n in range(1, 11)]
    assert setting.ingest.waiting_bytes == 0
    outcomes = setting.ingest.outcomes
    assert (outcomes.received, outcomes.logged) == (10, 10)


def test_an_unmatched_entering_range_is_not_announced_as_complete() -> None:
    setting = Setting()
    kept: list[Any] = []
    setting.keep = lambda *a: kept.append(a)  # type: ignore[attr-defined]

    class Dtds:
        def lookup(self, *_: object) -> Deferred[None]:
            return fail(Overloaded("many wait for it"))

        def get(self, _: object) -> None:
            return None

    setting.ingest._types._lookups._dtds = cast(Any, Dtds())
    missing = TypeMissing(DtdReference("t", "1"), "")
    setting.matcher.match = lambda *_, marked: [missing]  # type: ignore[method-assign]
    said = enters(setting, frame_of(1))
    setting.clock.advance(1.0)
    assert "matched" not in said
    assert setting.ingest.outcomes.turned_away == {}


def test_a_failed_append_is_retried() -> None:
    setting = Setting()

    def broken(*_: object, **named: object) -> NoReturn:
        raise RuntimeError("the environment is closed")

    setting.log.deduplication.record = broken  # type: ignore[method-assign]
    setting.ingest._slices._on_failed = lambda error: None
    setting.ingest._slices._is_running = True
    setting.take(1, 3)
    setting.ingest._slices._is_running = False
    setting.ingest._slices.run_later()
    setting.clock.advance(1.0)
    assert len(setting.settled) == 1 and setting.settled[0][1] is not None


def test_a_failed_append_does_not_block_other_origins() -> None:
    setting = Setting()
    real = setting.log.deduplication.record

    def broken(*_: object, **named: object) -> NoReturn:
        raise RuntimeError("the environment is closed")

    setting.log.deduplication.record = broken  # type: ignore[method-assign]
    setting.clock.callLater(0, lambda: None)
    setting.ingest._slices._is_running = True
    setting.take(1, 3)
    setting.ingest._slices._is_running = False
    setting.ingest._slices.run_later()
    setting.clock.advance(1.0)
    setting.log.deduplication.record = real  # type: ignore[method-assign]
    setting.take(4, 6)
    setting.clock.advance(1.0)
    setting.log.commit()
    assert [last for last, _ in setting.settled][-1] == 6


@pytest.mark.parametrize("pattern", ["q", "s"])
def test_ordered_flows_are_logged_in_the_order_of_arrival(pattern: str) -> None:
    setting = Setting()
    setting.matcher.most = 1
    setting.matcher.after = lambda: setting.clock.advance(1.0)
    for first, last, origin in ((1, 3, "one"), (4, 5, "two"), (6, 7, "one")):
        setting.take(first, last, f"{origin}/{pattern}")
    while setting.clock.getDelayedCalls():
        setting.clock.advance(0.0)
    setting.log.commit()
    in_order = [(1, number) for number in range(1, 8)]
    assert sorted(setting.log.logged) == in_order
    assert (setting.log.logged == in_order) is (pattern == "q")


def test_copies_of_own_events_are_no_duplicates() -> None:
    setting = Setting()
    for is_copy in (False, True, False):
        setting.take(1, 2, "own/q", is_copy=is_copy)
    setting.log.commit()
    assert setting.log.logged == [(1, 1), (1, 2)] * 2
    assert setting.ingest.outcomes.duplicate == 2
