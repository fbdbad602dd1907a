"""Figures and table of `./dev mesh`."""

from __future__ import annotations

import pytest
from rich.console import Console

from broker.event.event_id import EventId
from examples.mesh.__main__ import find_busiest_router
from examples.mesh.figures import LeafFigures, MeshSample
from examples.mesh.verdict import Leaf, longest_pause, make_table
from examples.network.subscribers import Arrivals, Subscriber


def sample(*, passed: int = 0, pages: int = 0, **parents: tuple[int, int, int]) -> MeshSample:
    """Return a sample; each parent has its counts of first, duplicate and repaired events."""
    names = ("first", "duplicate", "repaired")
    counts = {name: dict(zip(names, each, strict=True)) for name, each in parents.items()}
    return MeshSample(counts, passed, pages, 9)


def events(count: int) -> list[EventId]:
    return [EventId("feed", 1, number, 1) for number in range(1, count + 1)]


def test_counts_of_parents_that_have_gone_are_kept() -> None:
    figures = LeafFigures()
    figures.add(sample(b1=(0, 0, 0), b2=(0, 0, 0)))
    figures.add(sample(b1=(60, 30, 2), b2=(40, 50, 3)))
    figures.add(sample(b1=(70, 30, 2)))
    figures.add(sample(b1=(80, 30, 4), r1=(5, 2, 1)))
    assert (figures.first_parents, figures.parents) == (("b1", "b2"), ("b1", "r1"))
    assert (figures.first, figures.repaired) == (125, 8)


def test_a_copy_is_hidden_if_only_another_parent_brought_it() -> None:
    figures = LeafFigures()
    figures.add(sample(b1=(0, 0, 0), b2=(0, 0, 0)))
    figures.add(sample(b1=(60, 30, 0), b2=(40, 50, 0)))
    assert figures.hidden == 10 + 10
    figures.add(sample(b1=(160, 30, 0), r1=(0, 90, 0)))
    assert figures.hidden == 20, "the number of copies that a new parent could bring is not known"
    figures.add(sample(b1=(210, 70, 0), r1=(50, 130, 0)))
    assert figures.hidden == 20 + 10 + 10


def test_a_new_connection_to_the_same_parent_counts_from_zero() -> None:
    figures = LeafFigures()
    figures.add(sample(b1=(0, 0, 0)))
    figures.add(sample(b1=(100, 0, 9)))
    figures.add(sample(b1=(20, 1, 2)))
    assert (figures.first, figures.repaired, figures.hidden) == (120, 11, 0)


def test_pages_and_passed_ranges_count_from_the_first_sample() -> None:
    figures = LeafFigures()
    figures.add(sample(passed=3, pages=5))
    figures.add(sample(passed=4, pages=8))
    assert (figures.passed, figures.pages) == (1, 3)


def test_the_pause_is_free_of_the_gaps_of_the_publisher() -> None:
    one, two, three = events(3)
    sent = {one: 0.0, two: 5.0, three: 6.0}
    arrivals = Arrivals()
    assert longest_pause(arrivals, sent) == 0
    for event, when in ((one, 0.1), (two, 5.1), (three, 7.6)):
        arrivals.add(event, when)
    assert longest_pause(arrivals, sent) == pytest.approx(1.5)


def test_the_router_with_the_most_leaves_is_killed() -> None:
    assert find_busiest_router([("b1",), ("b2", "b3"), ("b3", "b4")]) == "b3"
    assert find_busiest_router([("b4",), ("b1", "b4"), ("b1", "b2")]) == "b4", "an only parent"


def test_errors_and_recovered_events_are_in_the_table() -> None:
    published = events(10)
    leaf = Leaf(Subscriber("c1", "true()", range(10)), LeafFigures())
    leaf.figures.add(sample(b1=(0, 0, 0)))
    leaf.figures.add(sample(r2=(6, 0, 1), pages=2))
    for when, event in enumerate([*published[:8], published[3]]):
        leaf.arrivals.add(event, float(when))
    # Two are missing, one came twice, and the second time late.
    assert leaf.count_errors(published) == 2 + 1 + 1
    console = Console(width=80)
    with console.capture() as shown:
        console.print(make_table("events", [leaf], dict.fromkeys(published, 0.0)))
    rows = [line.split() for line in shown.get().splitlines()]
    assert "c1 b1 > r2 9 2 1 1 1000 0 1 2 2".split() in rows
