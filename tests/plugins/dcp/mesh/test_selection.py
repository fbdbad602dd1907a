"""The choice of parents among the nodes that offer a place."""

from __future__ import annotations

from itertools import permutations

from plugins.dcp.mesh.selection import Candidate, GuardedSelector


def make_candidate(name: str, level: int = 1, response: float = 0.1, **keys: str) -> Candidate:
    return Candidate(name, level, keys, response)


def choose(*offers: Candidate, count: int = 1, parents: tuple[Candidate, ...] = ()) -> list[str]:
    """Return the names of the chosen ones, the same for each order of the offers."""
    found = {
        tuple(each.name for each in GuardedSelector().select(order, parents, count, 0.0))
        for order in permutations(offers)
    }
    (names,) = found
    return list(names)


PARENT = make_candidate("p", 3, host="h1", uplink="u1")


def test_new_diversity_keys_come_before_a_low_level() -> None:
    same = make_candidate("same", 0, host="h1", uplink="u1")
    half = make_candidate("half", 5, host="h1", uplink="u3")
    new = make_candidate("new", 9, host="h2", uplink="u2")
    assert choose(same, half, new, count=3, parents=(PARENT,)) == ["new", "half", "same"]


def test_a_low_level_comes_before_a_quick_answer() -> None:
    low, quick = make_candidate("low", 1, 0.5), make_candidate("quick", 2, 0.1)
    assert choose(low, quick, count=2) == ["low", "quick"]


def test_the_quickest_answer_decides_at_last() -> None:
    offers = [make_candidate(f"n{number}", 1, number / 10) for number in range(4)]
    assert choose(*offers, count=2) == ["n0", "n1"]


def test_the_second_parent_differs_from_the_first_one() -> None:
    offers = (
        make_candidate("a", 0, host="h1"),
        make_candidate("b", 0, 0.2, host="h1"),
        make_candidate("c", 4, host="h2"),
    )
    assert choose(*offers, count=2) == ["a", "c"]


def test_a_key_of_another_kind_is_another_thing() -> None:
    uplink = make_candidate("uplink", 1, uplink="h1")
    host = make_candidate("host", 0, host="h1")
    assert choose(uplink, host, parents=(make_candidate("p", host="h1"),)) == ["uplink"]


def test_a_node_that_is_a_parent_comes_last() -> None:
    again = make_candidate("p", 0)
    other = make_candidate("other", 9, host="h1", uplink="u1")
    assert choose(again, other, count=2, parents=(PARENT,)) == ["other", "p"]


def test_no_more_than_the_missing_parents_are_chosen() -> None:
    offers = [make_candidate("a", 1), make_candidate("b", 2)]
    assert choose(*offers, count=0) == [] and choose(count=2) == []
    assert choose(*offers, count=5) == ["a", "b"]
