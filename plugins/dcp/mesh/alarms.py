"""Alarms about the redundancy of a node (D99; N1, N8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from math import ceil, log
from typing import Final

from plugins.dcp.mesh.standing import Standing
from plugins.dcp.parents import Parent

#: Seconds between two beacons of a root.
BEACON_SECONDS: Final = 1.0
#: Probability of a silence that is due to loss alone.
_CHANCE: Final = 1e-9
#: Loss of a path that measures less.
_LEAST_LOSS: Final = 0.01
_MOST_LOSS: Final = 0.9
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
