from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed

from broker.archive.interval import Interval
from broker.event.place import Mark
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess, Coverage
from broker.recovery.flow_archive import with_flows
from broker.replay.request import Range, ReplayRequest
from tests.log.test_known_flows import record

X = "b" * 24
F = f"{X}/asdi.>"
#: Of `F`: behind the 4th place of `X`, up to the 8th.
INTERVALS = (((1, 4), (1, 8)),)
#: By offset.
STREAMS = {n: "asdi.x" if n % 2 else "other" for n in range(1, 11)}


@attrs.define
class Archive:
    """Has the places 1 to 10 of `X`."""

    asked: list[ReplayRequest] = attrs.field(factory=list)
    missing: Sequence[tuple[str, Mark, Mark]] = ()
    scanned_rows: tuple[int, int] = (0, 0)
    events: list[LoggedEvent] = attrs.field(factory=list)

    def start_replay(self, request: ReplayRequest) -> Archive:
        self.asked.append(request)
        after, upto = request.range_of(X) or ((9, 0), None)
        self.events = [
            LoggedEvent(1, n, n, 0, record(stream), b"", X, n)
            for n, stream in STREAMS.items()
            if after < (1, n) <= (upto or (9, 0))
        ]
        return self

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        events, self.events = self.events[:1], self.events[1:]
        return succeed(events)

    def end_marks(self) -> Mapping[str, Mark]:
        return {X: (1, 10)}

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        return self.missing

    def cancel(self) -> None:
        """It does not run by itself."""

    def get_coverage(self, after: Mapping[str, Mark]) -> Deferred[Coverage]:
        found: dict[str, list[Interval]] = {o: [((1, 0), (1, 10))] for o in after if o == X}
        others = frozenset({X} - after.keys())
        return succeed(Coverage(found, frozenset({X}), others, {X: (1, 12)}, is_known=True))


def access(archive: Archive, flows: KnownFlows | None = None) -> ArchiveAccess:
    inner = ArchiveAccess(
        archive, archive.get_coverage, cast(Any, None), cast(Any, None), max_lag=1.0
    )
    return with_flows(inner, flows or KnownFlows("own", {F: INTERVALS}))


def replay(
    archive: Archive,
    ranges: Mapping[str, Range],
    flows: KnownFlows | None = None,
    *,
    others: bool = False,
) -> tuple[list[tuple[str, int]], Any]:
    request = ReplayRequest(">", "true()", ranges=ranges, others=others)
    started = access(archive, flows).replays.start_replay(request)
    found: list[tuple[str, int]] = []
    while True:
        got: list[Sequence[LoggedEvent]] = []
        started.next_events().addCallback(got.append)
        if not got[0]:
            return found, started
        found += [(event.origin, event.offset) for event in got[0]]


ALL = [(F if n in (5, 7) else X, n) for n in range(1, 11)]


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ({X: ((0, 0), None), F: ((0, 0), None)}, ALL),
        ({X: ((1, 6), None), F: ((1, 4), (1, 8))}, [(F, 5), *ALL[6:]]),
        ({X: ((1, 2), (1, 6)), F: ((1, 5), None)}, [(X, 3), (X, 4), (X, 6), (F, 7)]),
        ({F: ((0, 0), None)}, [(F, 5), (F, 7)]),
        ({X: ((0, 0), None)}, [each for each in ALL if each[0] == X]),
        ({X: ((1, 9), (1, 9)), F: ((1, 5), None)}, [(F, 7)]),
    ],
)
def test_each_flow_is_read_from_its_own_mark(
    ranges: Mapping[str, Range], found: list[tuple[str, int]]
) -> None:
    events, started = replay(Archive(), ranges)
    assert events == found
    ends = {X: (1, 10), F: (1, 8)}
    assert started.end_marks() == {flow: ends[flow] for flow in ranges}


def test_unnamed_flows_are_read_in_full_with_other_origins() -> None:
    assert replay(Archive(), {X: ((1, 6), None)}, others=True)[0] == [(F, 5), *ALL[6:]]
    assert replay(Archive(), {}, others=True)[0] == [(X, n) for n in STREAMS]


def test_an_event_of_a_flow_with_unknown_intervals_is_not_lost() -> None:
    """Its mark may count for the default flow or the other one: it comes unless both have it."""
    ranges = {X: ((1, 6), None), F: ((1, 2), None)}
    events, _ = replay(Archive(), ranges, KnownFlows("own", {}))
    assert events == [(F, 3), (F, 5), (X, 7), (X, 8), (X, 9), (X, 10)]


def test_missing_ranges_count_for_each_flow() -> None:
    archive = Archive(missing=[(X, (1, 3), (1, 9)), ("other", (1, 0), (1, 1))])
    _, started = replay(archive, {X: ((1, 6), None), F: ((1, 2), None)})
    wanted = [(X, (1, 6), (1, 9)), (F, (1, 4), (1, 8)), ("other", (1, 0), (1, 1))]
    assert sorted(started.missing_ranges()) == sorted(wanted)


def test_the_archive_covers_each_flow_up_to_its_end() -> None:
    got: list[Coverage] = []
    access(Archive()).get_coverage({F: (1, 2)}).addCallback(got.append)
    (found,) = got
    assert found.intervals == {F: [((1, 0), (1, 8))]}
    assert found.repairable == {F} and found.lost_ends == {F: (1, 12)}
    assert found.other_origins == {X}


def test_a_request_without_flows_is_passed_on_unchanged() -> None:
    archive = Archive()
    request = ReplayRequest(">", "true()", ranges={"a" * 24: ((0, 0), None)}, others=False)
    assert access(archive).replays.start_replay(request) is archive
    assert archive.asked == [request]
