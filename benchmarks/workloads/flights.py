"""Queries on flight records (`flight_records`).

Values are evenly spread and independent. With the mix `STANDARD` an event matches about 2e-4 of the
boxes, of the prefixes and of the queries on one leg. It matches 1 in 350 of the spans (a quarter of
the flights has two legs) and 1 in 20,000 of the equalities. That is 3 to 4 of 10,000 queries; with
the mix `HARDER` it is 1.1% of them.
"""

from __future__ import annotations

import random
from typing import Final

from benchmarks.harness.flights import (
    AIRLINES,
    ALTITUDES,
    FLEET,
    LATITUDES,
    LONGITUDES,
    SPEEDS,
    flight_id,
)
from benchmarks.workloads.mix import STANDARD, Draw, Mix, distinct_queries
from benchmarks.workloads.windows import Scale

#: The papers' Table 1 (DCP D81): everything, an altitude, an airline, and positions north of the
#: Tropic of Cancer (23 degrees 26 minutes).
TABLE_1: Final = (
    "true()",
    "/flight/flightleg/altitude > 300",
    'starts-with(string(/flight/id), "TWA")',
    "substring(string(/flight/flightleg/coordinate/lat), 1, 4) > 2326",
)
#: Their bounds are on parts of values.
_ON_THE_MAP: Final = 0.2

_ALTITUDES: Final = Scale(ALTITUDES)
_SPEEDS: Final = Scale(SPEEDS)
_LATITUDES: Final = Scale(100 * degrees + minute for degrees in LATITUDES for minute in range(60))
_LONGITUDES: Final = Scale(100 * degrees + minute for degrees in LONGITUDES for minute in range(60))


def flight_queries(count: int, mix: Mix = STANDARD, seed: int = 1) -> list[tuple[str, str]]:
    """Each has its kind (see `Mix`)."""
    return distinct_queries(count, mix, _kinds(mix.window), seed)


def rare_queries(count: int, seed: int = 1) -> list[str]:
    """Return distinct queries of which 1,000 together match about one event in fifty."""
    chance = random.Random(f"rare {seed}")
    draws: tuple[Draw, ...] = (_aircraft, _aircraft_high, _prefix(3e-5), _height_and_speed(1e-5))
    seen: dict[str, None] = {}
    while len(seen) < count:
        [draw] = chance.choices(draws, (2, 3, 1, 4))
        seen.setdefault(draw(chance))
    return list(seen)


# ------------------------------------------------------------------------ the kinds of queries


def _kinds(window: float) -> dict[str, Draw]:
    return {
        "equality": _equality,
        "prefix": _prefix(window),
        "span": _span(window),
        "box": _box(window),
        "correlated": _correlated(window),
        "undecidable": _undecidable(window),
    }


def _equality(chance: random.Random) -> str:
    # The fleet is smaller than the largest workload.
    if chance.random() < 0.5:
        return _aircraft(chance)
    name = flight_id(chance.randrange(FLEET))
    return f'/flight[id = "{name}"]/flightleg[altitude > {ALTITUDES[0] + chance.randrange(50)}]'


def _aircraft(chance: random.Random) -> str:
    return f'/flight/id = "{flight_id(chance.randrange(FLEET))}"'


def _aircraft_high(chance: random.Random) -> str:
    name, bound = flight_id(chance.randrange(FLEET)), _ALTITUDES.bound(chance, 0.1)
    return f'/flight[id = "{name}"]/flightleg[altitude > {bound}]'


def _prefix(window: float) -> Draw:
    # Four digits, the first one not 0.
    shares = [1 / len(AIRLINES), *(1 / len(AIRLINES) / 9 / 10**more for more in range(3))]
    digits = min(range(4), key=lambda count: abs(shares[count] / window - 1))

    def draw(chance: random.Random) -> str:
        length = digits
        while length < 3 and chance.random() < 0.3:
            length += 1
        number = str(chance.randrange(1000, 10_000))[:length]
        return f'starts-with(/flight/id, "{chance.choice(AIRLINES)}{number}")'

    return draw


def _span(window: float) -> Draw:
    def draw(chance: random.Random) -> str:
        name, scale = chance.choice((("altitude", _ALTITUDES), ("speed", _SPEEDS)))
        low, high = scale.window(chance, window)
        return f"/flight/flightleg[{name} > {low} and {name} < {high}]"

    return draw


def _box(window: float) -> Draw:
    in_the_air, on_the_map = _height_and_speed(window), _place(window)
    return lambda chance: (on_the_map if chance.random() < _ON_THE_MAP else in_the_air)(chance)


def _height_and_speed(window: float) -> Draw:
    side = window**0.5

    def draw(chance: random.Random) -> str:
        low, high = _ALTITUDES.window(chance, side)
        slow, fast = _SPEEDS.window(chance, side)
        return (
            f"/flight/flightleg[altitude > {low} and altitude < {high} "
            f"and speed > {slow} and speed < {fast}]"
        )

    return draw


def _place(window: float) -> Draw:
    side = window**0.5
    latitude, longitude = "number(substring(lat, 1, 4))", "number(substring(lon, 1, 5))"

    def draw(chance: random.Random) -> str:
        south, north = _LATITUDES.window(chance, side)
        east, west = _LONGITUDES.window(chance, side)
        return (
            f"/flight/flightleg/coordinate[{latitude} > {south} and {latitude} < {north} "
            f"and {longitude} > {east} and {longitude} < {west}]"
        )

    return draw


def _correlated(window: float) -> Draw:
    of_an_airline = min(1.0, window * len(AIRLINES))
    side = window**0.5

    def draw(chance: random.Random) -> str:
        if chance.random() < 0.5:
            low, high = _ALTITUDES.window(chance, of_an_airline)
            return (
                f'/flight[starts-with(id, "{chance.choice(AIRLINES)}")]'
                f'/flightleg[@status="active" and altitude > {low} and altitude < {high}]'
            )
        low, high = _ALTITUDES.window(chance, side)
        slow, fast = _SPEEDS.window(chance, side)
        return (
            f'//flightleg[@status="active" and altitude[@mode="plain"] > {low} '
            f"and altitude < {high} and speed > {slow} and speed < {fast}]"
        )

    return draw


def _undecidable(window: float) -> Draw:
    necessary = _height_and_speed(window)

    def draw(chance: random.Random) -> str:
        altitude, speed = _ALTITUDES.bound(chance, 0.6), _SPEEDS.bound(chance, 0.7)
        beyond = chance.choice(
            (
                f"(//flightleg[altitude > {altitude}])[1]/speed > {speed}",
                f"//flightleg[count(//flightleg[altitude > {altitude}])]/speed > {speed}",
                f"sum(//flightleg[altitude > {altitude}]/speed) > {speed}",
            )
        )
        return f"{necessary(chance)} and {beyond}"

    return draw
