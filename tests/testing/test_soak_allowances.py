"""Only events published before their node's disk was damaged are excused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.event.place import Mark, Place
from broker.testing.guarantees import Allowances, EventKey, Observations, Published, ReportedGap
from tests.soak.recorded_places import RecordedPlaces
from tests.soak.run import _allowances

GAP = ReportedGap("a", (1, 1), (1, 9), 9, "lost")
KEY = EventKey("p", 1, 1)


def recorded(marks: dict[str, Mark]) -> RecordedPlaces:
    places = RecordedPlaces()
    for origin, mark in marks.items():
        places.add(origin, [mark])
    return places


def allowances(
    published_at: float,
    durability: str = "node",
    heard: dict[str, Mark] | None = None,
    **damaged: float,
) -> Allowances:
    seen = Observations()
    seen.record_publication(Published(KEY, "s", "flight 1.0", 1, at=published_at))
    seen.record_receipt(KEY, durability, Place("a", 1, 1), published_at)
    nodes = {name: SimpleNamespace(origins={name}) for name in "abc"}
    world: Any = SimpleNamespace(
        lost_until=damaged,
        restored_nodes={"b"},
        nodes=nodes,
        has_stepped_clock=False,
        has_emptied_disk=False,
        versions=0,
    )
    allowed = _allowances(world, seen, None if heard is None else recorded(heard))
    assert allowed.set_back_origins == {"b"}
    return allowed


def excused(published_at: float, durability: str = "node", **damaged: float) -> bool:
    allowed = allowances(published_at, durability, None, **damaged)
    return allowed.justifies_gap(KEY, Place("a", 1, 1), GAP)


@pytest.mark.parametrize(("published_at", "expected"), [(4.0, True), (6.0, False)])
def test_a_damage_excuses_only_what_was_published_before(
    published_at: float, expected: bool
) -> None:
    assert excused(published_at, a=5.0) is expected


def test_the_damage_of_another_node_excuses_nothing() -> None:
    assert not excused(4.0, b=5.0)


def test_one_damage_does_not_excuse_a_loss_acknowledged_by_a_neighbour() -> None:
    assert not excused(4.0, "neighbour", a=5.0)
    assert excused(4.0, "neighbour", a=5.0, b=5.0)


@pytest.mark.parametrize(
    ("published_at", "durability", "heard", "damaged", "expected"),
    [
        (4.0, "node", {}, {"a": 5.0}, True),
        (4.0, "node", {"a": (1, 0)}, {"a": 5.0}, True),
        (4.0, "node", {"a": (1, 1)}, {"a": 5.0}, False),
        (6.0, "node", {}, {"a": 5.0}, False),
        (4.0, "node", {}, {"b": 5.0}, False),
        (4.0, "neighbour", {}, {"a": 5.0}, False),
        (4.0, "neighbour", {}, {"a": 5.0, "b": 5.0}, True),
        (4.0, "node", None, {"a": 5.0}, False),
    ],
)
def test_only_events_on_no_disk_need_no_gap(
    published_at: float,
    durability: str,
    heard: dict[str, Mark] | None,
    damaged: dict[str, float],
    expected: bool,
) -> None:
    allowed = allowances(published_at, durability, heard, **damaged)
    assert allowed.is_unrecorded(KEY, Place("a", 1, 1)) is expected
