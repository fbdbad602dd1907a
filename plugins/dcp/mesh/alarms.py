"""Alarms about the redundancy of a node (D99; N1, N8)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import combinations
from math import ceil, log
from typing import Final

from plugins.dcp.mesh.joint_loss import sets_of
from plugins.dcp.mesh.standing import Standing
from plugins.dcp.parents import Parent, Parents

#: Seconds between two beacons of a root.
BEACON_SECONDS: Final = 1.0
#: Probability of a silence that is due to loss alone.
_CHANCE: Final = 1e-9
#: Loss of a path that measures less.
_LEAST_LOSS: Final = 0.01
_MOST_LOSS: Final = 0.9
#: The joint loss of parents is an alarm if its lower bound exceeds so many times the product of
#: their single losses.
_JOINT_FACTOR: Final = 10
_CONFIDENCE: Final = 0.9999
#: Time for which a circle is an alarm after it was opened.
_CYCLE_SECONDS: Final = 60.0


def silent_after(loss: float) -> float:
    """Return the seconds without a beacon after which a path has died, at a loss end to end."""
    loss = min(max(loss, _LEAST_LOSS), _MOST_LOSS)
    return BEACON_SECONDS * ceil(log(_CHANCE) / log(loss))


def describe_cycle(cycle: tuple[float, str] | None, now: float) -> str:
    """Return the alarm about a parent that was dropped for its path, with the time; else empty."""
    if cycle is None or now >= cycle[0] + _CYCLE_SECONDS:
        return ""
    parent = cycle[1]
    return f"this node was in the path of its parent {parent}: a circle, or two nodes of one name"


def find_alarms(
    parents: Iterable[Parent], standing: Standing, own: frozenset[str], target: int, now: float
) -> Iterator[str]:
    """Yield a sentence for each alarm.

    `target` is the number of parents that the node seeks, `own` its name and diversity keys.
    """
    parents = list(parents)
    for parent in parents:
        silence = now - parent.beacon_at
        if silence > silent_after(parent.path_loss):
            yield f"nothing of a root comes through the parent {parent.candidate.name}"
    if standing.paths < target:
        resilience = max(0, standing.paths - 1)
        yield f"resilience is {resilience}, below the {target - 1} of {target} parents"
    for element in sorted(standing.shared - own) if target > 1 else ():
        yield f"one failure cuts this node off: {element}"
    for one, other in combinations(parents, 2):
        for kind, which in sorted(
            one.candidate.diversity.items() & other.candidate.diversity.items()
        ):
            names = f"{one.candidate.name} and {other.candidate.name}"
            yield f"the parents {names} share the {kind} {which}"


def joint_alarms(parents: Parents) -> Iterator[str]:
    """Yield a sentence for each set of parents that lose more events together than by chance; none
    for a larger set around it."""
    names = {each.connection: each.candidate.name for each in parents}
    found: list[frozenset[Hashable]] = []
    for each in sets_of(list(names)):
        if any(known <= frozenset(each) for known in found):
            continue
        count, product = parents.losses.count(each), parents.losses.independent_share(each)
        if count.is_above(_JOINT_FACTOR * product, _CONFIDENCE):
            found.append(frozenset(each))
            listed = " and ".join(name for one, name in names.items() if one in each)
            yield (
                f"the parents {listed} lose events together: {100 * count.share:.2g}%, and "
                f"{100 * product:.2g}% if nothing failed for both"
            )
