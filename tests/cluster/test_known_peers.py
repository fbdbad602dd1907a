from __future__ import annotations

from broker.cluster.known_peers import MOST_PEERS, PEER_EXPIRY, KnownPeers
from broker.errors import ClusterFull, WrongNetwork
from tests.cluster.sample_nodes import a_node

MEMBERS = {name: a_node(f"c/{name}") for name in ("n1", "n2", "n3")}


def test_absent_members_are_known_until_they_expire() -> None:
    known = KnownPeers("n1")
    known.update(MEMBERS, 0.0)
    left = {"n1": MEMBERS["n1"], "n2": MEMBERS["n2"]}
    known.update(left, 5.0)
    assert dict(known.list_absent(left)) == {"n3": MEMBERS["n3"]}
    assert known.list_absent(MEMBERS) == {}
    known.update(left, PEER_EXPIRY)
    assert known.list_absent(left) == {}


def test_peers_in_another_cluster_are_forgotten() -> None:
    known = KnownPeers("n1")
    known.update(MEMBERS, 0.0)
    known.record_refusal("n2", ClusterFull("full"))
    known.record_refusal("n3", WrongNetwork("elsewhere"))
    known.record_refusal("n4", WrongNetwork("elsewhere"))
    assert set(known.list_absent({})) == {"n2"}


def test_known_peers_are_bounded() -> None:
    known = KnownPeers("n1")
    for number in range(MOST_PEERS + 9):
        known.update({f"x{number}": a_node(f"c/x{number}")}, float(number))
    assert len(known.list_absent({})) == MOST_PEERS
    assert "x8" not in known.list_absent({})
