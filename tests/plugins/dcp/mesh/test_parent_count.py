"""The number of parents by the events that they lose together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import attrs
import pytest

from plugins.dcp.mesh.joint_loss import JointLoss
from plugins.dcp.mesh.parent_count import MOST_PARENTS, ParentCount, judge_loss, most_samples

NAMES = tuple("abcdefgh")
#: Returns the parents that lose an event, at a time.
Losers = Callable[[Random, float], set[str]]


def independent(share: float) -> Losers:
    return lambda random, _: {name for name in NAMES if random.random() < share}


def shared_uplink(share: float, *names: str) -> Losers:
    """Some parents lose the same events, the others events of their own."""

    def draw(random: Random, now: float) -> set[str]:
        alone = independent(share)(random, now) - set(names)
        return alone | set(names) if random.random() < share else alone

    return draw


@attrs.define
class Node:
    """A node that finds each parent at once, and gives one up at once."""

    losers: Losers
    target: float
    available: Sequence[str] = NAMES
    rate: int = 100
    """Events in 5 s."""
    now: float = 0.0
    chosen: list[tuple[float, int]] = attrs.field(factory=list)
    """Each change of the number, with its time."""
    parents: list[str] = attrs.field(factory=list)
    losses: JointLoss = attrs.field(init=False)
    number: ParentCount = attrs.field(init=False)
    random: Random = attrs.field(factory=lambda: Random(7))

    def __attrs_post_init__(self) -> None:
        self.losses = JointLoss(most_samples(self.target))
        self.number = ParentCount(2, self.target, self.losses)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 5.0
            for name in self.available:
                if name not in self.parents and len(self.parents) < self.number.count:
                    self.parents.append(name)
            for _ in range(self.rate):
                lost = self.losers(self.random, self.now)
                self.losses.add(self.parents, lost.intersection(self.parents))
            before = self.number.count
            assert self.number.is_due(self.now)
            spare = self.number.judge(self.parents, self.now)
            if spare is not None:
                self.parents.remove(str(spare))
                self.losses.remove(spare)
            if self.number.count != before:
                self.chosen.append((self.now, self.number.count))


@pytest.mark.parametrize(
    ("losers", "target", "number"),
    [
        (independent(0.1), 0.03, 2),
        (independent(0.1), 0.005, 3),
        (independent(0.3), 0.025, 4),
        # The product of two is 0.01: one failure of the uplink is 0.1.
        (shared_uplink(0.1, "a", "b"), 0.03, 3),
        (shared_uplink(0.1, "a", "b", "c"), 0.005, 5),
        (independent(0.0), 1e-6, 2),
        (independent(0.9), 0.01, MOST_PARENTS),
    ],
)
def test_the_number_follows_the_joint_loss(losers: Losers, target: float, number: int) -> None:
    node = Node(losers, target)
    node.run(1_800.0)
    assert max(count for _, count in [(0.0, 2), *node.chosen]) == number
    found = judge_loss(node.losses, node.parents, target)
    assert (found.bound < target) == (number < MOST_PARENTS)
    assert bool(node.number.find_alarm()) == (number == MOST_PARENTS)


def test_parents_that_share_an_uplink_are_not_kept_for_others() -> None:
    """Of three parents two suffice, but not the two with one uplink."""
    node = Node(shared_uplink(0.05, "a", "b"), 0.02)
    node.run(1_800.0)
    assert node.chosen[0][1] == 3 and node.number.count == 2
    assert len({"a", "b"}.intersection(node.parents)) == 1


def test_few_events_give_an_estimate_with_the_measured_correlation() -> None:
    random, losers = Random(3), shared_uplink(0.05, "a", "b")
    losses = JointLoss()
    for _ in range(4_000):
        losses.add("abc", losers(random, 0.0).intersection("abc"))
    two, three = (judge_loss(losses, names, 1e-6) for names in ("ab", "abc"))
    assert not two.is_measured and not three.is_measured
    assert two.loss == pytest.approx(0.05, rel=0.2)
    assert three.loss == pytest.approx(0.05**2, rel=0.35)
    assert losses.independent_share("abc") < 0.2 * three.loss
    assert three.loss < three.bound < 2 * three.loss
    node = Node(losers, 1e-6, available="abc")
    node.run(600.0)
    snapshot = node.number.snapshot()
    assert snapshot["basis"] == "estimated" and snapshot["loss_target"] == 1e-6


def test_enough_events_are_measured_and_judged_by_the_upper_bound() -> None:
    losses = JointLoss(most_samples(0.01))
    for number in range(1_000):
        losses.add("ab", "ab" if number % 200 == 0 else "")
    found = judge_loss(losses, "ab", 0.01)
    assert found.is_measured and found.loss == 0.005
    # Five of 1,000: the exact bound is 0.0105.
    assert found.bound == pytest.approx(0.01048, rel=0.01)


@pytest.mark.parametrize("share", [0.1, 0.316])
def test_the_number_settles_near_the_target(share: float) -> None:
    """The joint loss of two, or of four, is that of the target."""
    node = Node(independent(share), 0.01, rate=20)
    node.run(5_400.0)
    late = [at for at, _ in node.chosen if at > 2_700.0]
    assert len(node.chosen) <= 6 and len(late) <= 1, node.chosen


def test_the_number_follows_a_loss_that_comes_and_goes() -> None:
    def draw(random: Random, now: float) -> set[str]:
        return independent(0.3 if 3_600 < now < 7_200 else 0.03)(random, now)

    node = Node(draw, 0.01)
    node.run(3_600.0)
    assert node.number.count == 2
    node.run(600.0)
    assert node.number.count >= 4
    node.run(3_000.0)
    found = judge_loss(node.losses, node.parents, 0.01)
    assert found.bound < 0.01
    node.run(3_600.0)
    assert node.number.count == 2


def test_a_parent_that_is_not_found_is_not_sought_for_ever() -> None:
    node = Node(independent(0.3), 0.01, available="abc")
    node.run(1_800.0)
    assert (node.number.count, len(node.parents)) == (4, 3)
    node.losers = independent(0.03)
    node.run(2_400.0)
    assert node.number.count == len(node.parents) == 2
