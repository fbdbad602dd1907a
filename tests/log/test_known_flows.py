from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
from twisted.internet.task import Clock

from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.flow import CarryingPatterns
from broker.event.place import Mark
from broker.log import known_flows
from broker.log.commit import Retention
from broker.log.event_log import EventLog
from broker.log.known_flows import KnownFlows, with_origin
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent, encode_header
from broker.log.pending_commit import RelayedEvents
from tests.log.test_event_log import Thread

OTHER = "b" * 24
PATTERN = "asdi.>"


def record(stream: str) -> bytes:
    event_id = EventId("client", 1, 1, 1)
    return encode_header(
        Header(event_id, stream, "flight", "1.0", SecurityLevel.LOW, Liveness.LIVE)
    )


def start(
    folder: Path, clock: Clock, *patterns: str, ordered: Sequence[str] | None = ()
) -> tuple[EventLog, Thread]:
    disk = Thread()
    log = EventLog(
        LogFile(folder / "log", Retention(), sync=False),
        clock=clock,
        wall_clock=lambda: 1_700_000_000_000 + int(clock.seconds() * 1000),
        write=disk,
        read=disk,
        carrying=CarryingPatterns.parse(patterns),
        ordered=None if ordered is None else CarryingPatterns.parse(ordered),
    )
    return log, disk


def publish(log: EventLog, disk: Thread, *streams: str) -> list[LoggedEvent]:
    got: list[LoggedEvent] = []
    done = lambda events: got.extend(events)  # noqa: E731
    log.append([(record(stream), 0, b"<x/>") for stream in streams], done)
    while not got:
        disk.step()
    return got


def copy(log: EventLog, disk: Thread, *events: LoggedEvent) -> None:
    """Log copies of all withheld events up to the last one of these."""
    flow, upto = events[-1].origin, events[-1].mark
    entries = [(each.mark, each.record, each.level, each.document) for each in events]
    got: list[object] = []
    log.append_relayed(RelayedEvents(flow, log.coverage[flow], upto, entries), got.append)
    while not got:
        disk.step()


def read_shown(log: EventLog, disk: Thread) -> list[tuple[str, int]]:
    """Return the events that are not withheld."""
    found: list[tuple[str, int]] = []
    page = log.read(1, 1_000, 1 << 20)
    page.addCallback(
        lambda events: found.extend((e.origin, e.offset) for e in events if not e.is_withheld)
    )
    disk.step()
    return found


def read_all(log: EventLog, disk: Thread) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    page = log.read(1, 1_000, 1 << 20)
    page.addCallback(lambda events: found.extend((e.origin, e.offset) for e in events))
    disk.step()
    return found


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_own_events_have_the_flow_in_force_at_their_mark(tmp_path: Path, clock: Clock) -> None:
    log, disk = start(tmp_path, clock)
    own, flow = log.origin, f"{log.origin}/{PATTERN}"
    publish(log, disk, "asdi.x", "other")
    assert log.coverage.marks.keys() == {own} and not log.flows.own
    log.crash()
    log, disk = start(tmp_path, clock, PATTERN)
    since = log.own_end
    assert log.end_position() == {own: since, flow: since}
    assert log.coverage[own] == log.coverage[flow] <= since
    events = publish(log, disk, "asdi.x", "other", "asdi.y")
    assert [(e.origin, e.offset) for e in events] == [(flow, 3), (own, 4), (flow, 5)]
    assert log.coverage.marks == {own: events[-1].mark, flow: events[-1].mark}
    log.crash()
    log, disk = start(tmp_path, clock)
    until = log.own_end
    publish(log, disk, "asdi.x")
    wanted = [(own, 1), (own, 2), (flow, 3), (own, 4), (flow, 5), (own, 6)]
    assert read_all(log, disk) == wanted
    assert log.coverage.marks == {own: log.own_end, flow: until}
    assert log.flows.intervals_of(flow) == ((since, until),)
    log.crash()


def test_the_log_stores_events_of_all_own_flows_under_its_origin(
    tmp_path: Path, clock: Clock
) -> None:
    log, disk = start(tmp_path, clock, PATTERN)
    own, flow = log.origin, f"{log.origin}/{PATTERN}"
    publish(log, disk, "asdi.x", "other", "asdi.y")
    log.crash()
    file = LogFile(tmp_path / "log", Retention(), sync=False)
    assert file.covered.keys() == {own}
    assert [e.origin for e in file.read_origin(own, (0, 0), 9, 1 << 20)] == [own] * 3
    assert file.read_origin(flow, (0, 0), 9, 1 << 20) == []
    file.crash()
    log, disk = start(tmp_path, clock, PATTERN)
    assert log.first_after(flow, log.coverage[flow]) == 4
    assert log.first_after(flow, (1, 0)) == 1
    assert log.position_before(3) == {
        own: (log.flows.since(flow)[0], 2),
        flow: log.position_before(3)[own],
    }
    log.crash()


def test_a_node_without_other_stacks_stores_nothing(tmp_path: Path, clock: Clock) -> None:
    log, _ = start(tmp_path, clock)
    log.crash()
    file = LogFile(tmp_path / "log", Retention(), sync=False)
    assert file.flow_intervals == {}
    file.crash()


def test_flows_of_other_origins_are_stored_with_the_next_commit(
    tmp_path: Path, clock: Clock
) -> None:
    log, disk = start(tmp_path, clock)
    flow, intervals = f"{OTHER}/{PATTERN}", (((1, 5), (2, 9)), ((3, 9), None))
    log.put_flow(flow, intervals)
    log.put_flow(f"{log.origin}/{PATTERN}", intervals)
    assert not disk.calls
    relayed = [((3, 12), record("asdi.x"), 0, b"<x/>")]
    log.append_relayed(RelayedEvents(flow, (3, 9), (3, 12), relayed), lambda _: None)
    disk.step()
    log.crash()
    log, disk = start(tmp_path, clock)
    assert log.flows.intervals_of(flow) == intervals and not log.flows.own
    assert log.coverage[flow] == (3, 12) and OTHER not in log.coverage
    assert read_all(log, disk) == [(flow, 12)]
    log.crash()


def test_positions_get_a_mark_for_each_flow_that_they_do_not_name() -> None:
    flow = f"{OTHER}/{PATTERN}"
    flows = KnownFlows("own", {flow: (((2, 50), None),)})
    unnamed: dict[str, Mark] = {"own": (1, 1)}
    assert flows.complete_marks(unnamed) is unnamed
    assert flows.complete_marks({OTHER: (2, 60)})[flow] == (2, 50)
    assert flows.complete_marks({OTHER: (1, 40)})[flow] == (1, 40)
    assert flows.complete_marks({OTHER: (1, 40), flow: (2, 55)})[flow] == (2, 55)


def test_a_closed_flow_ends_at_its_last_interval() -> None:
    flow = f"own/{PATTERN}"
    flows = KnownFlows("own", {flow: (((2, 50), (3, 70)),)})
    assert flows.own == (flow,) and flows.is_own(flow) and not flows.is_own("own2/asdi.>")
    assert flows.own_marks((5, 90)) == {flow: (3, 70)}
    assert flows.own_marks((2, 60)) == {flow: (2, 60)}


def test_the_longest_pattern_in_force_decides() -> None:
    wide, narrow = "own/asdi.>", "own/asdi.zbw.>"
    flows = KnownFlows("own", {wide: (((1, 0), None),), narrow: (((2, 10), (3, 20)),)})
    assert flows.flow_at("own", "asdi.zbw.tz", (1, 5)) == wide
    assert flows.flow_at("own", "asdi.zbw.tz", (2, 11)) == narrow
    assert flows.flow_at("own", "asdi.zny.tz", (2, 11)) == wide
    assert flows.flow_at("own", "asdi.zbw.tz", (3, 21)) == wide
    assert flows.flow_at("own", "other", (3, 21)) == "own"
    assert flows.of_origin("own") == ["own", narrow, wide]
    events = [
        LoggedEvent(2, n, 0, 0, record(s), b"", "own", n)
        for n, s in [(11, "asdi.zbw.x"), (12, "o")]
    ]
    assert flows.select_flow(events, narrow) == events[:1]
    assert flows.select_flow(events, "own") == events[1:]
    flows.label_own(events)
    assert [e.origin for e in events] == [narrow, "own"]
    assert [e.origin for e in with_origin(events, "own")] == ["own", "own"]


def test_flows_of_other_origins_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_flows, "MAX_FOREIGN_FLOWS", 400)
    flows = KnownFlows("own", {})
    intervals = (((1, 0), None),)
    assert flows.put(f"{OTHER}/s", intervals) and not flows.put(f"{OTHER}/s", intervals)
    assert not flows.put("own/s", intervals)
    for number in range(1, 400):
        assert flows.put(f"o{number}/s", intervals)
    assert not flows.put("p/s", intervals)
    assert flows.put(f"{OTHER}/s", (((1, 0), (2, 0)),))


def test_intervals_of_an_earlier_process_do_not_replace_later_ones() -> None:
    flow = f"{OTHER}/s"
    flows = KnownFlows("own", {})
    opened, closed = (((1, 5), None),), (((1, 5), (2, 9)),)
    again = (*closed, ((4, 9), None))
    for newer, older in ((opened, ()), (closed, opened), (again, closed)):
        assert flows.put(flow, newer)
        assert not flows.put(flow, older) and not flows.put(flow, newer)
        assert flows.intervals_of(flow) == newer
    # A restored log may have fewer intervals.
    assert flows.put(flow, (((1, 5), (6, 20)),))


def test_an_end_names_a_place_of_the_whole_log() -> None:
    flow = f"{OTHER}/{PATTERN}"
    flows = KnownFlows("own", {flow: (((2, 50), (3, 70)),)})
    assert flows.until_marks({OTHER: (3, 60)}) == {OTHER: (3, 60), flow: (3, 60)}
    assert flows.until_marks({OTHER: (3, 90)}) == {OTHER: (3, 90), flow: (3, 70)}
    assert flows.until_marks({OTHER: (3, 90), flow: (2, 55)})[flow] == (2, 55)


def test_ordered_events_count_as_delivered_when_they_are_copied(
    tmp_path: Path, clock: Clock
) -> None:
    log, disk = start(tmp_path, clock, PATTERN, ordered=[PATTERN])
    own, flow = log.origin, f"{log.origin}/{PATTERN}"
    since = log.own_end
    first, _, second = events = publish(log, disk, "asdi.x", "other", "asdi.y")
    assert [event.is_withheld for event in events] == [True, False, True]
    assert log.coverage[own] == second.mark and log.coverage[flow] <= since
    assert log.own_cut() == {own: second.mark, flow: since} == log.end_position()
    copy(log, disk, first)
    assert log.coverage[flow] == first.mark and log.own_cut()[flow] == first.mark
    assert read_all(log, disk) == [(flow, 1), (own, 2), (flow, 3), (flow, 1)]
    assert read_shown(log, disk) == [(own, 2), (flow, 1)]
    assert log.position_before(4) == {own: second.mark, flow: since}
    assert log.position_before(5) == {own: second.mark, flow: first.mark}
    assert log.unlogged_places == 0
    log.crash()
    log, disk = start(tmp_path, clock, PATTERN, ordered=[PATTERN])
    assert log.coverage.marks == {own: second.mark, flow: first.mark}
    copy(log, disk, attrs.evolve(second, is_withheld=False))
    assert read_shown(log, disk) == [(own, 2), (flow, 1), (flow, 3)]
    log.crash()


def test_the_own_log_has_no_copies(tmp_path: Path, clock: Clock) -> None:
    log, disk = start(tmp_path, clock, PATTERN, ordered=[PATTERN])
    own, flow = log.origin, f"{log.origin}/{PATTERN}"
    copy(log, disk, *publish(log, disk, "asdi.x", "asdi.y"))
    log.crash()
    file = LogFile(tmp_path / "log", Retention(), sync=False)
    assert [e.serial for e in file.read_origin(own, (0, 0), 9, 1 << 20)] == [1, 2]
    assert [e.serial for e in file.read_origin(flow, (0, 0), 9, 1 << 20)] == [3, 4]
    file.crash()
    log, disk = start(tmp_path, clock, PATTERN, ordered=[PATTERN])
    page: list[LoggedEvent] = []
    log.read(1, 9, 1 << 20).addCallback(page.extend)
    disk.step()
    assert [event.serial for event in log.flows.without_copies(page)] == [1, 2]
    log.crash()


def withhold_and_copy(tmp_path: Path, clock: Clock) -> None:
    """Publish 1 before the flow is ordered, and 2 and 3 after; copy 2."""
    log, disk = start(tmp_path, clock, PATTERN)
    publish(log, disk, "asdi.x")
    log.crash()
    log, disk = start(tmp_path, clock, PATTERN, ordered=[PATTERN])
    first, _ = publish(log, disk, "asdi.y", "asdi.z")
    copy(log, disk, first)
    assert read_shown(log, disk) == [(first.origin, 1), (first.origin, 2)]
    log.crash()


@pytest.mark.parametrize("patterns", [(), (PATTERN,)])
def test_a_flow_that_no_transport_orders_any_more_ends_when_all_is_copied(
    tmp_path: Path, clock: Clock, patterns: tuple[str, ...]
) -> None:
    withhold_and_copy(tmp_path, clock)
    log, disk = start(tmp_path, clock, *patterns)
    flow = f"{log.origin}/{PATTERN}"
    assert log.flows.ordered == log.flows.lapsed == {flow}
    (last,) = publish(log, disk, "asdi.x")
    assert (last.origin, last.is_withheld) == (flow if patterns else log.origin, bool(patterns))
    page: list[LoggedEvent] = []
    log.read(3, 1, 1 << 20).addCallback(page.extend)
    disk.step()
    rest = [*page, *([last] if patterns else [])]
    assert [event.offset for event in rest if event.is_withheld] == [3, 4][: len(rest)]
    copy(log, disk, *[attrs.evolve(event, is_withheld=False) for event in rest])
    shown = sorted(read_shown(log, disk), key=lambda place: place[1])
    assert shown == [(flow, 1), (flow, 2), (flow, 3), (last.origin, 4)]
    log.crash()
    log, disk = start(tmp_path, clock, *patterns)
    assert not log.flows.ordered
    (last,) = publish(log, disk, "asdi.x")
    assert not last.is_withheld and read_shown(log, disk)[-1] == (last.origin, 5)
    assert log.coverage[flow] == log.flows.limit(flow, last.mark)
    log.crash()


def test_a_flow_that_is_ordered_again_continues_behind_its_last_copy(
    tmp_path: Path, clock: Clock
) -> None:
    withhold_and_copy(tmp_path, clock)
    for patterns in ((), (PATTERN,)):
        log, disk = start(tmp_path, clock, *patterns, ordered=patterns)
        flow = f"{log.origin}/{PATTERN}"
        assert log.flows.ordered == {flow} and log.coverage[flow][1] == 2
        assert bool(log.flows.lapsed) is not bool(patterns)
        log.crash()


def test_without_a_network_the_rest_of_a_flow_is_delivered_from_the_log(
    tmp_path: Path, clock: Clock
) -> None:
    withhold_and_copy(tmp_path, clock)
    log, disk = start(tmp_path, clock, PATTERN, ordered=None)
    flow = f"{log.origin}/{PATTERN}"
    assert not log.flows.ordered and log.coverage[flow] == log.coverage[log.origin]
    assert read_shown(log, disk) == [(flow, 1), (flow, 3), (flow, 2)]
    log.crash()
