from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.event.place import Place, Position

PLACES = st.builds(
    Place, st.sampled_from(["n1", "n2", "n3"]), st.integers(1, 3), st.integers(1, 50)
)


@given(st.lists(PLACES), PLACES)
def test_a_position_holds_the_furthest_place_of_every_origin(
    places: list[Place], other: Place
) -> None:
    position = Position().advanced(places)
    assert all(position.covers(place) for place in places)
    furthest = [place.mark for place in places if place.origin == other.origin]
    assert position.covers(other) is (bool(furthest) and other.mark <= max(furthest))


@given(st.lists(PLACES), st.lists(PLACES))
def test_merging_positions_is_advancing_over_both(first: list[Place], second: list[Place]) -> None:
    merged = Position().advanced(first).merged(Position().advanced(second))
    assert merged == Position().advanced([*first, *second])


@given(st.lists(PLACES))
def test_a_position_survives_the_wire_and_the_command_line(places: list[Place]) -> None:
    position = Position().advanced(places)
    assert Position.from_wire(position.to_wire()) == position
    assert Position.parse(str(position)) == position


def test_a_later_epoch_lies_behind_every_earlier_offset() -> None:
    assert not Position({"n": (1, 100)}).covers(Place("n", 2, 1))
