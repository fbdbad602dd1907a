"""The oracles are naive."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.event.envelope import EventLinkage
from broker.event.merging.merger import Merger
from broker.event.merging.settings import Merging
from tests.event.merging.schedules import Event, Run, check_run, event, linked

STREAMS = ("fp", "tz", "wx")
LINKAGES = (
    EventLinkage(),
    linked("none", "time", "fp", "tz"),
    linked("within 20ms", None, "fp", "tz"),
    linked("window 30ms", "time", "tz", "fp", "wx"),
    linked("within 20ms", "time"),
    linked("sometimes", "perhaps", "fp"),
)


@st.composite
def arrivals(draw: st.DrawFn, *, bundled: bool) -> list[tuple[float, Event]]:
    """Any time stamps, at rising times; each publisher's numbers rise."""
    count = draw(st.integers(1, 25))
    now = 0.0
    found: list[tuple[float, Event]] = []
    for item in range(count):
        now += draw(st.sampled_from((0.0, 0.0, 0.004, 0.02, 0.3)))
        linkage = draw(st.sampled_from(LINKAGES))
        if bundled and draw(st.booleans()):
            ids = draw(st.lists(st.sampled_from("ab"), unique=True, min_size=1, max_size=2))
            numbers = [(each, draw(st.integers(0, 6))) for each in ids]
            constraint = draw(st.sampled_from((None, "within 40ms")))
            linkage = linked(constraint, "bundle", "#b", "#a", bundles=numbers)
        time = draw(st.integers(0, 80))
        stream = draw(st.sampled_from(STREAMS))
        client = draw(st.sampled_from("pqr"))
        found.append((now, event(item, time, stream, client, linkage)))
    return found


MERGINGS = st.sampled_from(
    (
        Merging(wait=0.1),
        Merging(wait=0.0),
        Merging(wait=10.0, idle=0.5, longest=0.2),
        Merging(wait=5.0, max_events=4),
        Merging(wait=5.0, max_bytes=6),
    )
)


def run(schedule: list[tuple[float, Event]], merging: Merging) -> Run:
    done = Run(Merger(merging))
    for now, each in schedule:
        done.receive(now, each)
        assert done.merger.held <= merging.max_events
        assert done.merger.held_bytes <= merging.max_bytes
    done.finish(schedule[-1][0])
    assert (done.merger.held, done.merger.held_bytes, done.merger.next_timeout()) == (0, 0, None)
    assert done.merger.counts.given == len(schedule)
    assert done.merger.counts.late == len(done.late)
    return done


@settings(max_examples=150)
@given(arrivals(bundled=False), MERGINGS)
def test_merges_by_time(schedule: list[tuple[float, Event]], merging: Merging) -> None:
    check_run(run(schedule, merging), schedule)


@settings(max_examples=150)
@given(arrivals(bundled=True), MERGINGS)
def test_merges_by_bundles(schedule: list[tuple[float, Event]], merging: Merging) -> None:
    check_run(run(schedule, merging), schedule)


@settings(max_examples=100)
@given(arrivals(bundled=True), MERGINGS)
def test_one_batch_keeps_the_same_promises(
    schedule: list[tuple[float, Event]], merging: Merging
) -> None:
    done = Run(Merger(merging))
    done.receive(0.0, *(each for _, each in schedule))
    done.finish(0.0)
    check_run(done, [(0.0, each) for _, each in schedule])
