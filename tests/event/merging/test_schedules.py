"""Seeded runs in virtual time: delays, losses and silences."""

from __future__ import annotations

from random import Random

import pytest

from broker.event.envelope import EventLinkage
from broker.event.merging.merger import Merger
from broker.event.merging.resolution import Row, resolve
from broker.event.merging.settings import Merging
from broker.event.merging.vocabulary import rule_of
from tests.event.merging.schedules import Event, Run, check_run, event, linked, naive_by_time

STREAMS = ("fp", "tz", "wx")
CONSTRAINTS = ("none", "within 40ms", "window 100ms")


def by_time(
    random: Random, constraint: str, *, longest_delay: float, loss: float = 0.0
) -> list[tuple[float, Event]]:
    """Return one publisher per stream, each with its own path, in order of time.

    The first and last events arrive, so no silence has to be inferred.
    """
    linkage = linked(constraint, "time", *STREAMS)
    arrivals: list[tuple[float, int, Event]] = []
    item = 0
    for stream in STREAMS:
        now, arrived = 0.0, 0.0
        count = random.randint(3, 30)
        for number in range(count):
            now += random.choice((0.0, 0.01, 0.05, 0.3)) if number else 0.0
            arrived = max(arrived, now + random.uniform(0.0, longest_delay))
            if number not in (0, count - 1) and random.random() < loss:
                continue
            made = event(item, round(now * 1000), stream, stream, linkage)
            arrivals.append((arrived, item, made))
            item += 1
    return [(arrived, made) for arrived, _, made in sorted(arrivals)]


def run(arrivals: list[tuple[float, Event]], merging: Merging) -> Run:
    done = Run(Merger(merging))
    for now, each in arrivals:
        done.receive(now, each)
    done.finish(arrivals[-1][0])
    return done


@pytest.mark.parametrize("seed", range(150))
def test_in_time_a_live_merge_is_the_order_of_the_finished_set(seed: int) -> None:
    random = Random(seed)
    constraint = random.choice(CONSTRAINTS)
    arrivals = by_time(random, constraint, longest_delay=0.5, loss=random.choice((0.0, 0.3)))
    done = run(arrivals, Merging(wait=0.6))
    check_run(done, arrivals)
    assert not done.late, f"seed {seed}"
    rule, _ = rule_of(arrivals[0][1].linkage)
    assert rule is not None
    rows = [Row(each.stream, each.event_id, each.linkage) for _, each in arrivals]
    resolved = [arrivals[index][1].item for index in resolve(rows)]
    assert done.items == resolved == naive_by_time(rule, (e for _, e in arrivals)), f"seed {seed}"


@pytest.mark.parametrize("seed", range(100))
def test_paths_slower_than_the_wait_make_events_late_and_lose_none(seed: int) -> None:
    random = Random(seed)
    arrivals = by_time(random, random.choice(CONSTRAINTS), longest_delay=2.0, loss=0.2)
    check_run(run(arrivals, Merging(wait=0.1)), arrivals)


@pytest.mark.parametrize("seed", range(100))
def test_a_silent_stream_does_not_block_in_any_schedule(seed: int) -> None:
    random = Random(seed)
    arrivals = by_time(random, random.choice(CONSTRAINTS), longest_delay=0.5)
    silent, since = random.choice(STREAMS), random.uniform(0.0, 1.0)
    arrivals = [(at, e) for at, e in arrivals if e.stream != silent or at < since]
    if arrivals:
        done = run(arrivals, Merging(wait=0.6, idle=random.choice((0.7, 30.0))))
        check_run(done, arrivals)
        assert done.merger.counts.late == 0, f"seed {seed}"


@pytest.mark.parametrize("seed", range(100))
def test_bundles_through_delays_losses_and_silence(seed: int) -> None:
    random = Random(seed)
    wait = random.choice((0.2, 1.0))
    arrivals: list[tuple[float, Event]] = []
    item = 0
    for bundle in range(random.randint(1, 6)):
        now = random.uniform(0.0, 2.0)
        for number in range(1, random.randint(2, 12)):
            now += random.choice((0.0, 0.02, 0.4))
            item += 1
            if random.random() < 0.15:
                continue
            ids = [(f"b{bundle}", number)]
            if random.random() < 0.1:
                ids.append(("all", item))
            linkage = linked(None, "bundle", bundles=ids)
            if random.random() < 0.1:
                linkage = EventLinkage()
            made = event(item, round(now * 1000), "alerts", random.choice("pqr"), linkage)
            arrivals.append((now + random.uniform(0.0, 0.5), made))
    arrivals.sort(key=lambda arrival: arrival[0])
    if arrivals:
        check_run(run(arrivals, Merging(wait=wait)), arrivals)


@pytest.mark.parametrize("seed", range(50))
def test_whole_bundles_in_time_have_neither_late_events_nor_holes(seed: int) -> None:
    random = Random(seed)
    arrivals = [
        (
            random.uniform(0.0, 0.9),
            event(item, item, "alerts", "c", linked(None, "bundle", bundles=[(name, number)])),
        )
        for item, (name, number) in enumerate((b, n) for b in "xyz" for n in range(1, 9))
    ]
    arrivals.sort(key=lambda arrival: arrival[0])
    done = run(arrivals, Merging(wait=1.0))
    check_run(done, arrivals)
    assert (done.late, done.missing) == (set(), []), f"seed {seed}"
    assert done.merger.counts.overdue == 0
