from __future__ import annotations

import random

import pytest

from broker.cluster.descriptor import Endpoint
from broker.cluster.handshake_messages import MEMBER
from broker.cluster.meshing import (
    LONGEST_BACKOFF,
    MOST_DIALS,
    SHORTEST_BACKOFF,
    Dial,
    Meshing,
    Target,
    keeps_connection,
)
from broker.transport.backoff import SUCCESS_AFTER
from broker.transport.stacks import ReconnectionPolicy


def targets(*names: str) -> dict[str, Target]:
    return {name: Target(Endpoint(name, 1), MEMBER, ("c",), name) for name in names}


def keys(dials: list[Dial]) -> list[str]:
    return [dial.key for dial in dials]


def test_both_ends_keep_the_same_connection() -> None:
    for one, other in (("n1", "n2"), ("n2", "n1")):
        first_is_ours = keeps_connection(one, other, True)
        # The connection that `one` initiated is an accepted one at the other end.
        assert first_is_ours == keeps_connection(other, one, False)
        assert first_is_ours != keeps_connection(one, other, False)
        assert first_is_ours == (one < other)


def test_concurrent_dials_are_bounded() -> None:
    meshing = Meshing(99, random.Random(1))
    dials = meshing.set_targets(targets(*"abcdefgh"), 0.0)
    assert keys(dials) == list("abcdefgh")[:MOST_DIALS]
    assert meshing.next_timeout() is None
    assert keys(meshing.link_up("a", 0.0)) == ["e"]
    meshing.is_slow = True
    for name in "bcd":
        assert keys(meshing.link_up(name, 0.0)) == []
    assert keys(meshing.link_up("e", 0.0)) == ["f"]


def test_links_are_bounded_by_the_set_up_vector() -> None:
    meshing = Meshing(2, random.Random(1))
    meshing.set_targets(targets(*"abcd"), 0.0)
    meshing.link_up("a", 0.0)
    meshing.link_up("c", 0.0)
    assert meshing.dial_failed("b", 0.0) == []
    assert meshing.handle_timeout(100.0) == []
    assert keys(meshing.link_down("c", 200.0)) == ["b"]


def test_failed_dials_back_off() -> None:
    meshing = Meshing(9, random.Random(1))
    now, rests = 0.0, []
    assert meshing.set_targets(targets("a"), now)
    for _failure in range(12):
        assert meshing.dial_failed("a", now) == []
        due = meshing.next_timeout()
        assert due is not None
        rests.append(due - now)
        assert meshing.handle_timeout(due - 0.01) == []
        now = due
        assert keys(meshing.handle_timeout(now)) == ["a"]
    assert max(rests) <= LONGEST_BACKOFF
    assert rests[0] < 1 < 10 < rests[-1]
    assert all(rest <= SHORTEST_BACKOFF * 2**failures for failures, rest in enumerate(rests))


def test_a_linked_target_is_not_dialled() -> None:
    meshing = Meshing(2, random.Random(1))
    assert keys(meshing.set_targets(targets(*"abc"), 0.0, {"a", "stranger"})) == ["b"]
    # It counts among the links.
    assert meshing.link_up("b", 0.0) == []
    assert keys(meshing.link_down("a", SUCCESS_AFTER)) == ["c"]
    meshing.dial_failed("c", SUCCESS_AFTER)
    assert keys(meshing.handle_timeout(SUCCESS_AFTER + 0.5)) == ["a"]


def test_a_removed_target_is_not_dialled() -> None:
    meshing = Meshing(9, random.Random(1))
    meshing.set_targets(targets("a", "b"), 0.0)
    assert meshing.set_targets(targets("b"), 0.0) == []
    for tell in (meshing.dial_failed, meshing.link_down, meshing.link_up):
        assert tell("a", 0.0) == []
    meshing.dial_failed("b", 0.0)
    assert keys(meshing.handle_timeout(99.0)) == ["b"]


def test_a_silent_target_is_dialled_each_period() -> None:
    meshing = Meshing(9, random.Random(1), ReconnectionPolicy(10.0))
    assert keys(meshing.set_targets(targets("a"), 0.0)) == ["a"]
    assert meshing.handle_timeout(1.0) == []
    assert meshing.next_timeout() == 10.0
    assert keys(meshing.handle_timeout(10.0)) == ["a"]


def test_a_target_keeps_its_period_when_others_come() -> None:
    meshing = Meshing(9, random.Random(1), ReconnectionPolicy(10.0))
    meshing.set_targets(targets("a"), 0.0)
    assert keys(meshing.set_targets(targets("a", "b"), 1.0)) == ["b"]
    meshing.link_up("a", 2.0)
    assert meshing.link_down("a", 3.0) == []
    assert meshing.next_timeout() == 10.0


def test_a_target_that_was_removed_has_no_period_left() -> None:
    meshing = Meshing(9, random.Random(1), ReconnectionPolicy(10.0))
    assert keys(meshing.set_targets(targets("a"), 0.0)) == ["a"]
    meshing.set_targets({}, 1.0)
    assert meshing.set_targets(targets("a"), 2.0, {"a"}) == []
    assert keys(meshing.link_down("a", 3.0)) == ["a"]


@pytest.mark.parametrize("seed", range(20))
def test_a_mesh_has_one_link_per_pair(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"n{number}" for number in range(8)]
    meshings = {name: Meshing(99, random.Random(seed)) for name in names}
    connections: dict[tuple[str, str], float] = {}  # (initiator, acceptor): time of the link
    links: set[frozenset[str]] = set()

    def dial(name: str, now: float, dials: list[Dial]) -> None:
        for key in keys(dials):
            connections[name, key] = now + rng.uniform(0.0, 0.2)

    now = 0.0
    for name in names:
        others = [other for other in names if other != name]
        dial(name, now, meshings[name].set_targets(targets(*others), now))
    kept: dict[frozenset[str], str] = {}
    for _step in range(2000):
        now += 0.01
        for (one, other), there in sorted(connections.items()):
            if there > now:
                continue
            del connections[one, other]
            pair = frozenset((one, other))
            if rng.random() < 0.3:
                dial(one, now, meshings[one].dial_failed(other, now))
                continue
            if pair not in links or keeps_connection(one, other, True):
                kept[pair] = one
            links.add(pair)
            for end, far in ((one, other), (other, one)):
                dial(end, now, meshings[end].link_up(far, now))
        for name, meshing in meshings.items():
            dial(name, now, meshing.handle_timeout(now))
    assert len(links) == len(names) * (len(names) - 1) // 2
    assert not connections
    assert all(meshing.next_timeout() is None for meshing in meshings.values())


def test_a_peer_that_ends_every_link_is_dialled_with_backoff() -> None:
    meshing = Meshing(8, random.Random(1))
    now = 100.0
    dials = len(meshing.set_targets({"a": Target(Endpoint("a", 1), MEMBER, ("c",), "a")}, now))
    end = now + 600.0
    while now < end:
        meshing.link_up("a", now)
        meshing.set_targets({"a": Target(Endpoint("a", 1), MEMBER, ("c",), "a")}, now, {"a"})
        now += 0.05
        assert not meshing.link_down("a", now)
        due = meshing.next_timeout()
        assert due is not None
        now = due
        dials += len(meshing.handle_timeout(now))
    assert dials < 60, dials
    meshing.link_up("a", now)
    meshing.link_down("a", now + SUCCESS_AFTER)
    due = meshing.next_timeout()
    assert due is not None
    assert SHORTEST_BACKOFF / 2 <= due - now - SUCCESS_AFTER <= SHORTEST_BACKOFF
