"""The number of parents that a node seeks: fixed, or by the loss of the same events (5.8).

With `loss_target` it is the size of the smallest set of parents that loses fewer events jointly.
The upper 95% bound of the measured loss decides. Until 3 / `loss_target` events were observed, an
estimate stands for it: the product of the single losses, times the measured correlations.

A parent more is sought after some seconds of too great loss, one by one. One is given up after
minutes in which the others suffice by half the target. That time doubles each time when a parent
that was given up is sought again, so that the number settles.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import combinations
from math import sqrt
from typing import Final, NamedTuple

from plugins.dcp.mesh.joint_loss import JointLoss, LossCount, ParentSet

MOST_PARENTS: Final = 8
#: Parents before the first measurement.
FIRST_PARENTS: Final = 2
_CONFIDENCE: Final = 0.95
#: Two parents are correlated if the chance that they are not is below the rest.
_CORRELATED: Final = 0.99
#: Samples times target from which on the measured loss counts, and from which on a bound above the
#: target is not for want of samples.
_MEASURED: Final = 3.0
_DECIDED: Final = 50.0
#: Samples times target that are counted.
_KEPT: Final = 60.0
#: Events before any decision.
_LEAST_SAMPLES: Final = 200
#: Seconds between two judgements.
_PERIOD: Final = 5.0
_GROW_AFTER: Final = 10.0
_SHRINK_AFTER: Final = 120.0
_MOST_SHRINK_AFTER: Final = 86_400.0
#: Share of the target below which fewer parents suffice.
_SUFFICIENT: Final = 0.5
#: Lost events from which on the normal approximation of the bound counts.
_MANY_LOST: Final = 100
_NORMAL_QUANTILE: Final = 1.645


def most_samples(loss_target: float) -> int:
    """Return the events of which losses are counted."""
    return round(_KEPT / loss_target)


class Judgement(NamedTuple):
    """Joint loss of a set of parents."""

    samples: int
    loss: float
    bound: float
    """Upper 95% bound; of an estimate, with those of the single losses."""
    is_measured: bool


class ParentCount:
    def __init__(self, fixed: int, loss_target: float, losses: JointLoss) -> None:
        """With `loss_target` 0 the number is `fixed`."""
        self.count = FIRST_PARENTS if loss_target else fixed
        self.loss_target = loss_target
        self.judgement: Judgement | None = None
        """Of the present parents."""
        self._losses = losses
        self._judge_at = 0.0
        self._grow_since: float | None = None
        self._shrink_since: float | None = None
        self._shrink_after = _SHRINK_AFTER
        self._has_shrunk = False

    def is_due(self, now: float) -> bool:
        """Return whether the parents are to be judged."""
        return bool(self.loss_target) and now >= self._judge_at

    def judge(self, parents: Sequence[Hashable], now: float) -> Hashable | None:
        """Adapt the number to these parents, the best first. Return one to give up, if any."""
        if not parents:
            return None
        self._judge_at = now + _PERIOD
        present = self.judgement = judge_loss(self._losses, parents, self.loss_target)
        if present.samples < _LEAST_SAMPLES:
            self._grow_since = self._shrink_since = None
            return None
        is_whole = len(parents) >= self.count
        is_short = is_whole and self._is_short(parents, present)
        self._grow_since = _since(self._grow_since, now, holds=is_short)
        if self._grow_since is not None and now >= self._grow_since + _GROW_AFTER:
            self._grow()
        spare = self._find_spare(parents) if is_whole else None
        is_ample = spare is not None or (not is_whole and self._suffice(parents))
        self._shrink_since = _since(self._shrink_since, now, holds=is_ample and not is_short)
        if self._shrink_since is None or now < self._shrink_since + self._shrink_after:
            return None
        self._shrink_since = None
        self._has_shrunk = True
        self.count = max(1, len(parents) - is_whole)
        return spare

    def _grow(self) -> None:
        self._grow_since = None
        if self.count >= MOST_PARENTS:
            return
        self.count += 1
        if self._has_shrunk:
            self._has_shrunk = False
            self._shrink_after = min(2 * self._shrink_after, _MOST_SHRINK_AFTER)

    def _find_spare(self, parents: Sequence[Hashable]) -> Hashable | None:
        """Return the worst of the parents without which the others suffice."""
        for each in reversed(parents) if len(parents) > 1 else ():
            if self._suffice([other for other in parents if other is not each]):
                return each
        return None

    def _is_short(self, parents: Sequence[Hashable], judgement: Judgement) -> bool:
        """Return whether the parents lose too much, and not only for want of samples."""
        target = self.loss_target
        if not judgement.is_measured:
            return judgement.loss >= target
        if judgement.samples * target >= _DECIDED:
            return judgement.bound >= target
        return self._losses.count(parents).is_above(target, _CONFIDENCE)

    def _suffice(self, parents: Sequence[Hashable]) -> bool:
        """Return whether the bound of these parents is well below the target."""
        target, joint = _SUFFICIENT * self.loss_target, self._losses.count(parents)
        if joint.samples < _LEAST_SAMPLES or joint.share >= target:
            return False
        if joint.samples * self.loss_target >= _MEASURED:
            return joint.is_below(target, _CONFIDENCE)
        return judge_loss(self._losses, parents, self.loss_target).bound < target

    def find_alarm(self) -> str:
        """Return a sentence if the most parents lose too much; else empty."""
        found = self.judgement
        if found is None or self.count < MOST_PARENTS or found.samples < _LEAST_SAMPLES:
            return ""
        loss = found.bound if found.is_measured else found.loss
        if loss < self.loss_target:
            return ""
        return f"{MOST_PARENTS} parents lose {loss:.1e} of the events, above the loss_target"

    def snapshot(self) -> dict[str, object]:
        found = self.judgement
        if not self.loss_target:
            return {"chosen": self.count}
        measured: dict[str, object] = {}
        if found is not None:
            measured = {
                "joint_loss": found.loss,
                "upper_bound": found.bound,
                "basis": "measured" if found.is_measured else "estimated",
                "samples": found.samples,
            }
        return {"chosen": self.count, "loss_target": self.loss_target, **measured}


def _since(since: float | None, now: float, *, holds: bool) -> float | None:
    """Return the time since which a condition holds."""
    if not holds:
        return None
    return now if since is None else since


def judge_loss(losses: JointLoss, parents: Collection[Hashable], target: float) -> Judgement:
    """Return the joint loss of parents: measured, or estimated while there are few samples."""
    joint = losses.count(parents)
    if joint.samples * target >= _MEASURED:
        return Judgement(joint.samples, joint.share, _upper(joint), is_measured=True)
    loss, bound = _estimate(losses.lost_by_set(parents), list(parents))
    if joint.lost:
        # They share something that no two of them show.
        loss = max(loss, joint.lower(_CONFIDENCE))
    return Judgement(joint.samples, loss, max(loss, bound), is_measured=False)


def _upper(count: LossCount) -> float:
    if count.lost < _MANY_LOST:
        return count.upper(_CONFIDENCE)
    return min(1.0, count.share * (1 + _NORMAL_QUANTILE / sqrt(count.lost)))


def _estimate(
    lost_by_set: Mapping[ParentSet, int], parents: Sequence[Hashable]
) -> tuple[float, float]:
    """Return the product of the single losses times the measured correlations, and the same with
    the upper bounds of the single losses.

    Each further parent has the correlation with that of the others with which it shares most. For
    failures that form a tree, such as uplinks, that is the joint loss (Chow and Liu).
    """
    samples = sum(lost_by_set.values())

    def count(*losers: Hashable) -> LossCount:
        lost = sum(events for lost, events in lost_by_set.items() if lost.issuperset(losers))
        return LossCount(samples, lost)

    singles = {each: count(each) for each in parents}
    correlations: dict[frozenset[Hashable], float] = {}
    for one, other in combinations(parents, 2):
        product = singles[one].share * singles[other].share
        both = count(one, other)
        if product and both.is_above(product, _CORRELATED):
            correlations[frozenset((one, other))] = both.share / product
    loss = bound = 1.0
    joined: list[Hashable] = []
    left = list(parents)
    while left:
        factor, best = max(
            (
                (max((correlations.get(frozenset((each, o)), 1.0) for o in joined), default=1.0), n)
                for n, each in enumerate(left)
            ),
        )
        parent = left.pop(best)
        joined.append(parent)
        loss *= min(1.0, singles[parent].share * factor)
        bound *= min(1.0, _upper(singles[parent]) * factor)
    return loss, bound
