"""Queries on VOEvents with literals from real packets, so that some of them match.

A window is a run of the distinct values of one parameter. So the number of matches follows the mix
for any distribution of values. With the mix `STANDARD` about 1.7 of 10,000 queries match a packet,
and with `HARDER` about 1%.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

import attrs

from benchmarks.workloads.mix import STANDARD, Draw, Mix, distinct_queries
from benchmarks.workloads.voevent_packets import Sample
from benchmarks.workloads.windows import Scale
from broker.matching.query.number import parse_number

#: Distinct values from which on queries use a parameter's number.
_MANY: Final = 100
_ROOT: Final = '/voe:VOEvent[@role="observation"]'


def voevent_queries(
    sample: Sample, count: int, mix: Mix = STANDARD, seed: int = 1
) -> list[tuple[str, str]]:
    """Return queries for the prefix `voe` with their kinds (see `Mix`)."""
    return distinct_queries(count, mix, _kinds(_Literals.of(sample), mix.window), seed)


@attrs.frozen
class _Literals:
    identifiers: list[str]
    prefixes: Counter[str]
    """With counts, of identifiers longer than the publisher's part."""
    values: list[tuple[str, str]]
    """Distinct pairs of parameter and value, of parameters with many values."""
    scales: list[tuple[str, Scale, float]]
    """Numeric parameters, and the share of packets that have them."""
    right_ascension: Scale
    declination: Scale
    packets: int

    @classmethod
    def of(cls, sample: Sample) -> _Literals:
        prefixes: Counter[str] = Counter()
        for identifier in sample.identifiers:
            publisher = identifier.find("#") + 1
            prefixes.update(identifier[:end] for end in range(publisher, len(identifier)))
        values, scales = [], []
        for name, found in sorted(sample.parameters.items()):
            distinct = sorted(set(found))
            if '"' in name or len(distinct) < _MANY:
                continue
            values += [(name, value) for value in distinct if '"' not in value]
            numbers = [parse_number(value) for value in distinct]
            if all(abs(number) < 1e12 for number in numbers):
                scales.append((name, Scale(numbers), len(found) / sample.packets))
        return cls(
            sorted(set(sample.identifiers)),
            prefixes,
            values,
            scales,
            Scale(first for first, _ in sample.places),
            Scale(second for _, second in sample.places),
            sample.packets,
        )


def _kinds(literals: _Literals, window: float) -> dict[str, Draw]:
    return {
        "equality": _equality(literals),
        "prefix": _prefix(literals, window),
        "span": _span(literals, window),
        "box": _box(literals, window),
        "correlated": _correlated(literals, window),
        "undecidable": _undecidable(literals, window),
    }


def _equality(literals: _Literals) -> Draw:
    def draw(chance: random.Random) -> str:
        form = chance.random()
        if form < 0.2:
            return f'/voe:VOEvent/@ivorn = "{chance.choice(literals.identifiers)}"'
        name, value = chance.choice(literals.values)
        if form < 0.6:
            return f'//Param[@name="{name}"]/@value = "{value}"'
        return f'/voe:VOEvent/What/Group/Param[@name="{name}" and @value="{value}"]'

    return draw


def _prefix(literals: _Literals, window: float) -> Draw:
    most = max(2, round(2 * window * literals.packets))
    fitting = sorted(text for text, count in literals.prefixes.items() if 2 <= count <= most)
    return lambda chance: f'starts-with(/voe:VOEvent/@ivorn, "{chance.choice(fitting)}")'


def _span(literals: _Literals, window: float) -> Draw:
    dimensions = (("C1", literals.right_ascension), ("C2", literals.declination))

    def draw(chance: random.Random) -> str:
        name, scale = chance.choice(dimensions)
        low, high = scale.window(chance, window)
        return f"//Position2D/Value2[{name} > {low} and {name} < {high}]"

    return draw


def _box(literals: _Literals, window: float) -> Draw:
    side = window**0.5

    def draw(chance: random.Random) -> str:
        west, east = literals.right_ascension.window(chance, side)
        south, north = literals.declination.window(chance, side)
        return (
            f'//Position2D[@unit="deg"]/Value2[C1 > {west} and C1 < {east} '
            f"and C2 > {south} and C2 < {north}]"
        )

    return draw


def _correlated(literals: _Literals, window: float) -> Draw:
    one = _parameter(literals, window)

    def draw(chance: random.Random) -> str:
        if chance.random() < 0.6:
            return f"//{one(chance)}"
        return f"{_ROOT}//{one(chance)}"

    return draw


def _parameter(literals: _Literals, window: float) -> Draw:
    # These give more distinct windows.
    weights = [len(scale) for _, scale, _ in literals.scales]

    def draw(chance: random.Random) -> str:
        [(name, scale, present)] = chance.choices(literals.scales, weights)
        low, high = scale.window(chance, min(1.0, window / present))
        return f'Param[@name="{name}" and @value > {low} and @value < {high}]'

    return draw


def _undecidable(literals: _Literals, window: float) -> Draw:
    necessary = _parameter(literals, window)

    def draw(chance: random.Random) -> str:
        least, many = chance.randrange(10, 900), chance.randrange(2, 9)
        beyond = chance.choice(
            (
                f'(//Param[@value > {least}])[{many}]/@name != "TrigID"',
                f"//Param[count(//Param[@value > {least}])]/@value",
                f"sum(//Value2/*) + {least} > count(//Param[@value > {least}])",
            )
        )
        return f"//{necessary(chance)} and {beyond}"

    return draw
