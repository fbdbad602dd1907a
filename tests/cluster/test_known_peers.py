"""Former members are remembered, for some time and not too many."""

from __future__ import annotations

from broker.cluster.known_peers import MOST_REMEMBERED, REMEMBERED, Acquaintances
from broker.errors import ClusterFull, WrongNetwork
from tests.cluster.sample_nodes import a_node

MEMBERS = {name: a_node(f"c/{name}") for name in ("n1", "n2", "n3")}


def test_who_is_not_on_the_map_any_more_is_remembered_for_some_time() -> None:
    known = Acquaintances("n1")
    known.see(MEMBERS, 0.0)
    left = {"n1": MEMBERS["n1"], "n2": MEMBERS["n2"]}
    known.see(left, 5.0)
    assert dict(known.former(left)) == {"n3": MEMBERS["n3"]}
    assert known.former(MEMBERS) == {}
    known.see(left, REMEMBERED)
    assert known.former(left) == {}


def test_who_is_of_another_cluster_now_is_forgotten() -> None:
    known = Acquaintances("n1")
    known.see(MEMBERS, 0.0)
    known.refused("n2", ClusterFull("full"))
    known.refused("n3", WrongNetwork("elsewhere"))
    known.refused("n4", WrongNetwork("elsewhere"))
    assert set(known.former({})) == {"n2"}


def test_they_are_bounded() -> None:
    known = Acquaintances("n1")
    for number in range(MOST_REMEMBERED + 9):
        known.see({f"x{number}": a_node(f"c/x{number}")}, float(number))
    assert len(known.former({})) == MOST_REMEMBERED
    assert "x8" not in known.former({})
