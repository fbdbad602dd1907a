"""Faults and traffic of one seed: silent paths, cuts, restarts, slow paths and clock steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random
from typing import NamedTuple, TypeAlias

import attrs


class SetPath(NamedTuple):
    """Silence one direction of a pair, or repair it."""

    sender: str
    receiver: str
    is_up: bool


class Cut(NamedTuple):
    """Break the connections of a pair, with an error at both ends."""

    one: str
    other: str


class Kill(NamedTuple):
    site: str
    #: The other ends get no reset.
    silently: bool


class Start(NamedTuple):
    site: str


class SetExtraDelay(NamedTuple):
    """Add seconds to each packet of one direction."""

    sender: str
    receiver: str
    seconds: float


class StepClock(NamedTuple):
    site: str
    microseconds: int


class Publish(NamedTuple):
    """Stamp messages, and release them after their commit, or revoke them."""

    site: str
    messages: int = 1
    commit: float = 0.0
    fails: bool = False


class ChangeSites(NamedTuple):
    """Admit or remove a site, by an operator of another one."""

    site: str
    name: str
    is_member: bool


Action: TypeAlias = SetPath | Cut | Kill | Start | SetExtraDelay | StepClock | Publish | ChangeSites


@attrs.frozen(kw_only=True)
class Shape:
    """Lengths in seconds, and the kinds of faults with their weights."""

    faulty: float = 60.0
    calm: float = 24.0
    #: Nothing is published in the last seconds.
    quiet: float = 9.0
    weights: tuple[tuple[str, int], ...] = (
        *(("one-way", 4), ("pair", 4), ("split", 3), ("isolate", 2), ("flap", 3)),
        *(("cut", 3), ("kill", 2), ("slow", 1), ("step", 2)),
    )


Timed: TypeAlias = tuple[float, Action]


def make_schedule(random: Random, sites: tuple[str, ...], shape: Shape) -> list[Timed]:
    """Return actions sorted by time. All paths are repaired when the calm begins."""
    actions: list[Timed] = list(_traffic(random, sites, shape))
    end = shape.faulty
    kinds = [kind for kind, weight in shape.weights for _ in range(weight)]
    if kinds:
        time = random.uniform(2.0, 8.0)
        # Silence of one direction by overlapping faults ends with the last of them.
        while time < end:
            actions += _fault(random, sites, random.choice(kinds), time, end)
            time += random.expovariate(1 / random.choice((1.0, 5.0, 10.0)))
    actions += [(end, SetPath(one, other, True)) for one, other in permutations(sites, 2)]
    actions += [(end, SetExtraDelay(one, other, 0.0)) for one, other in permutations(sites, 2)]
    actions += [(end, Start(site)) for site in sites]
    return sorted(actions, key=lambda action: action[0])


def make_changes(
    random: Random, sites: tuple[str, ...], newcomers: tuple[str, ...], shape: Shape
) -> list[Timed]:
    """Return joins of newcomers, with their traffic and faults, and at most one leave."""
    end, everyone = shape.faulty, (*sites, *newcomers)
    actions = list(_traffic(random, newcomers, shape))
    for name in newcomers:
        time = random.uniform(3.0, 0.8 * end)
        # Sometimes two sites admit it, perhaps on both sides of a partition.
        for site in random.sample(sites, random.choice((1, 1, 2))):
            actions.append((time + random.uniform(0.0, 0.1), ChangeSites(site, name, True)))
            actions.append((end, ChangeSites(site, name, True)))
    if len(sites) > 3:
        site, name = random.sample(sites, 2)
        actions.append((random.uniform(3.0, end), ChangeSites(site, name, False)))
    time = random.uniform(3.0, 10.0)
    while time < end:
        kind = random.choice(("one-way", "pair", "split", "cut", "kill"))
        actions += _fault(random, everyone, kind, time, end)
        time += random.expovariate(1 / 15.0)
    actions += [(end, SetPath(one, other, True)) for one, other in permutations(everyone, 2)]
    actions += [(end, Start(name)) for name in newcomers]
    return actions


def _duration(random: Random) -> float:
    """Return the length of an outage: short, just detected, or beyond the suspicion."""
    low, high = random.choice(((0.05, 3.0), (3.0, 9.0), (6.0, 16.0), (14.0, 35.0)))
    return random.uniform(low, high)


def _traffic(random: Random, sites: tuple[str, ...], shape: Shape) -> Iterator[Timed]:
    end = shape.faulty + shape.calm - shape.quiet
    for site in sites:
        mean = random.choice((0.7, 1.5, 4.0))
        time = random.uniform(0.0, 2.0)
        while time < end:
            # Sometimes several sites publish at once, or one several messages.
            for each in dict.fromkeys((site, *random.sample(sites, random.choice((0, 0, 1, 2))))):
                yield time, _publication(random, each)
            time += random.expovariate(1 / (3 * mean))
        # Losses before it are found by its number.
        yield end, Publish(site)


def _publication(random: Random, site: str) -> Publish:
    commit = 1.0 if random.random() < 0.02 else random.uniform(0.0, 0.03)
    return Publish(site, random.choice((1, 1, 1, 3)), commit, random.random() < 0.02)


def _fault(
    random: Random, sites: tuple[str, ...], kind: str, time: float, end: float
) -> Iterator[Timed]:
    one, other = random.sample(sites, 2)
    until = min(time + _duration(random), end)
    match kind:
        case "one-way":
            yield from _silence([(one, other)], time, until)
        case "pair":
            yield from _silence([(one, other), (other, one)], time, until)
        case "split" | "isolate":
            size = 1 if kind == "isolate" else random.randrange(1, len(sites))
            side = set(random.sample(sites, size))
            across = [
                pair for pair in permutations(sites, 2) if (pair[0] in side) ^ (pair[1] in side)
            ]
            yield from _silence(across, time, until)
        case "flap":
            pairs = [(one, other), (other, one)][: random.choice((1, 2))]
            while time < until:
                length = random.choice((0.3, 2.0, 6.5))
                yield from _silence(pairs, time, min(time + random.uniform(0.0, length), end))
                time += length + random.uniform(0.0, random.choice((0.2, 4.0)))
        case "cut":
            for _ in range(random.choice((1, 1, 4))):
                if time < end:
                    yield time, Cut(one, other)
                time += random.uniform(0.0, 2.0)
        case "kill":
            # Often between a stamp and its release.
            yield time, _publication(random, one)
            time = min(time + random.uniform(0.0, 0.03), end)
            yield time, Kill(one, random.random() < 0.5)
            yield min(time + random.uniform(0.1, 8.0), end), Start(one)
        case "slow":
            yield time, SetExtraDelay(one, other, random.uniform(0.2, 1.0))
            yield min(time + random.uniform(0.2, 4.0), end), SetExtraDelay(one, other, 0.0)
        case "step":
            yield time, StepClock(one, random.randrange(-20_000, 20_000))


def _silence(pairs: list[tuple[str, str]], time: float, until: float) -> Iterator[Timed]:
    for pair in pairs:
        yield time, SetPath(*pair, False)
        yield until, SetPath(*pair, True)
