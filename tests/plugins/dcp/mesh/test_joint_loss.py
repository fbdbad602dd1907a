from __future__ import annotations

from random import Random

import pytest

from plugins.dcp.mesh.joint_loss import JointLoss, LossCount, sets_of

CONFIDENCE = 0.9999


def test_counts_are_of_the_events_that_are_known_of_all_asked_parents() -> None:
    joint = JointLoss()
    joint.add("abc", "")
    joint.add("abc", "ab")
    joint.add("abc", "abc")
    joint.add("ab", "a")
    joint.add("a", "a")
    assert joint.count("a") == (5, 4)
    assert joint.count("ab") == (4, 2)
    assert joint.count("abc") == (3, 1)
    assert joint.count("a", among="abc") == (3, 2)
    assert joint.count("d") == (0, 0)
    assert joint.independent_share("ab") == pytest.approx((3 / 4) * (2 / 4))
    assert joint.lost_by_set("ab") == {
        frozenset(): 1,
        frozenset("ab"): 2,
        frozenset("a"): 1,
    }


def test_a_parent_that_has_gone_is_forgotten_and_the_others_are_not() -> None:
    joint = JointLoss()
    joint.add("abc", "ab")
    joint.add("ab", "b")
    joint.add("b", "b")
    joint.remove("b")
    assert joint.count("b") == (0, 0)
    assert joint.count("a") == (2, 1)
    assert joint.count("ac") == (1, 0)


def test_old_events_are_forgotten() -> None:
    joint = JointLoss(most_samples=1_600)
    for _ in range(1_600):
        joint.add("ab", "ab")
    assert joint.count("ab") == (1_600, 1_600)
    for _ in range(1_599):
        joint.add("ab", "")
    samples, lost = joint.count("ab")
    assert 1_500 < samples <= 1_600
    assert lost == 0


def test_entries_are_bounded_whatever_parents_come_and_go() -> None:
    joint = JointLoss(most_samples=1 << 20)
    for number in range(20_000):
        joint.add([number], [])
    assert sum(map(len, joint._parts)) == 8_192
    joint.add([0], [0])
    assert joint.count([0]) == (1, 0)


def test_all_sets_of_at_least_two() -> None:
    assert list(sets_of("abc")) == [*map(tuple, ("ab", "ac", "bc", "abc"))]


@pytest.mark.parametrize("samples", [1, 50, 5_000])
@pytest.mark.parametrize("lost", [0, 1, 40])
def test_a_comparison_with_a_share_agrees_with_the_bound(samples: int, lost: int) -> None:
    count = LossCount(samples, min(lost, samples))
    for share in (0.0, 1e-5, 0.01, 0.5, 1.0):
        assert count.is_above(share, CONFIDENCE) == (count.lower(CONFIDENCE) > share)
        assert count.is_below(share, CONFIDENCE) == (count.upper(CONFIDENCE) < share)


@pytest.mark.parametrize("seed", range(3))
def test_shared_failures_exceed_the_product_and_independent_ones_do_not(seed: int) -> None:
    random = Random(seed)
    joint = JointLoss()
    for _ in range(20_000):
        both = random.random() < 0.01
        lost = {name for name in "abc" if random.random() < 0.02 or (both and name != "c")}
        joint.add("abc", lost)
    for pair, is_joint in (("ab", True), ("ac", False), ("bc", False)):
        limit = 3 * joint.independent_share(pair)
        assert joint.count(pair).is_above(limit, CONFIDENCE) is is_joint
