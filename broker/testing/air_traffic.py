"""Synthetic air-traffic feed of `asdi` events (checklist D86, D87), in the form of the papers'
converter."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import attrs

from broker.event.envelope import EventType

ASDI: Final = EventType("asdi", "1.0")

#: Degrees north and west.
Point: TypeAlias = tuple[float, float]

_BEGIN: Final = datetime(2026, 11, 14, 2, 0, tzinfo=UTC)
_MINUTE: Final = 60.0
#: Approximate positions; an aircraft belongs to the nearest centre.
_CENTRES: Final[dict[str, Point]] = {
    "KZAB": (35.1, 106.6),
    "KZAU": (41.8, 88.3),
    "KZBW": (42.7, 71.5),
    "KZDC": (39.1, 77.5),
    "KZDV": (40.2, 105.1),
    "KZFW": (32.8, 97.0),
    "KZHU": (29.9, 95.3),
    "KZID": (39.7, 86.3),
    "KZJX": (30.7, 81.9),
    "KZKC": (38.9, 94.8),
    "KZLA": (34.6, 118.1),
    "KZLC": (40.8, 111.9),
    "KZMA": (25.8, 80.3),
    "KZME": (35.1, 89.9),
    "KZMP": (44.6, 93.2),
    "KZNY": (40.8, 73.1),
    "KZOA": (37.5, 122.0),
    "KZOB": (41.3, 82.2),
    "KZSE": (47.3, 122.2),
    "KZTL": (33.4, 84.3),
}
_AIRPORTS: Final[dict[str, Point]] = {
    "ATL": (33.6, 84.4),
    "BOS": (42.4, 71.0),
    "DEN": (39.9, 104.7),
    "DFW": (32.9, 97.0),
    "DTW": (42.2, 83.4),
    "IAH": (30.0, 95.3),
    "JFK": (40.6, 73.8),
    "LAX": (33.9, 118.4),
    "MIA": (25.8, 80.3),
    "MSP": (44.9, 93.2),
    "ORD": (42.0, 87.9),
    "PHL": (39.9, 75.2),
    "PHX": (33.4, 112.0),
    "SEA": (47.4, 122.3),
    "SFO": (37.6, 122.4),
    "STL": (38.7, 90.4),
}
#: Designator, weight (H: heavy), highest level in hundreds of feet, knots.
_AIRCRAFT: Final = (
    ("B738", "", 390, 450),
    ("A320", "", 370, 445),
    ("B763", "H", 390, 465),
    ("CRJ2", "", 310, 410),
    ("B772", "H", 410, 485),
    ("E145", "", 330, 420),
)
_AIRLINES: Final = ("UAL", "AAL", "DAL", "JBU", "SWA", "NWA", "USA", "COA")
_CLIMB, _DESCENT = 20, 18
"""Hundreds of feet a minute."""


@attrs.frozen
class MadeEvent:
    stream: str
    """`asdi.<centre>.<type>`, such as `asdi.zbw.tz`."""
    event_type: EventType
    payload: bytes
    time: float
    """Seconds since 1970, as in the payload."""


@attrs.frozen(order=True)
class _Message:
    """A message without its number in the feed."""

    time: float
    kind: str = attrs.field(order=False)
    facility: str = attrs.field(order=False)
    content: str = attrs.field(order=False)


def air_traffic(count: int, seed: int = 0) -> Iterator[MadeEvent]:
    """Yield valid `ASDI` events in order of time."""
    chance = random.Random(seed)
    numbers = itertools.count()
    # (next message, number that breaks ties, later messages)
    flights: list[tuple[_Message, int, Iterator[_Message]]] = []

    def add(begin: float) -> None:
        messages = _Flight(chance, begin).messages()
        heapq.heappush(flights, (next(messages), next(numbers), messages))

    for _ in range(max(5, min(400, count // 150))):
        add(_BEGIN.timestamp() + chance.uniform(0, 20 * _MINUTE))
    for sequence in range(count):
        message, _, rest = heapq.heappop(flights)
        yield _made(message, sequence)
        following = next(rest, None)
        if following is None:
            add(message.time + chance.uniform(0, 5 * _MINUTE))
        else:
            heapq.heappush(flights, (following, next(numbers), rest))


def _made(message: _Message, sequence: int) -> MadeEvent:
    moment = datetime.fromtimestamp(message.time, UTC)
    payload = (
        f'<asdi type="{message.kind}"><sequence>{sequence % 0x10000:04X}</sequence>'
        f"<time>{moment:%d%H%M%S}</time><facility>{message.facility}</facility>"
        f"{message.content}</asdi>"
    )
    stream = f"asdi.{message.facility[1:].lower()}.{message.kind.lower()}"
    return MadeEvent(stream, ASDI, payload.encode(), math.floor(message.time))


class _Flight:
    def __init__(self, chance: random.Random, begin: float) -> None:
        self._chance = chance
        self._time = begin
        self._origin, self._destination = chance.sample(sorted(_AIRPORTS), 2)
        self._length = _distance(_AIRPORTS[self._origin], _AIRPORTS[self._destination])
        kind, weight, highest, self._cruise = chance.choice(_AIRCRAFT)
        # Eastbound on odd levels, westbound on even ones.
        level = min(highest, 110 + int(self._length / 40) * 20)
        eastbound = _AIRPORTS[self._destination][1] < _AIRPORTS[self._origin][1]
        self._level = level // 20 * 20 + (10 if eastbound else 0)
        self._identity = (
            f"<aircraftId>{chance.choice(_AIRLINES)}{chance.randrange(1, 2000)}</aircraftId>"
            f"<computerId>{chance.randrange(1000):03}</computerId>"
        )
        heavy = f' weight="{weight}"' if weight else ""
        self._aircraft = f"<aircraft{heavy}>{kind}</aircraft>"
        self._altitude = 0.0
        self._flown = 0.0

    def messages(self) -> Iterator[_Message]:
        ends = f"<origin>{self._origin}</origin>", f"<destination>{self._destination}</destination>"
        departure = self._time + self._chance.uniform(15, 40) * _MINUTE
        arrival = departure + (self._length / self._cruise * 60 + 15) * _MINUTE
        due = f'<arrivalTime status="E">{_clock(arrival)}</arrivalTime>'
        yield self._message(
            "FZ",
            f'flightPlan>{self._identity}{self._aircraft}<speed type="filed">{self._cruise}</speed>'
            f'{ends[0]}<departureTime status="P">{_clock(departure)}</departureTime>'
            f'<altitude type="requested">{self._level:03}</altitude>'
            f"<route>{self._origin}..{self._destination}</route>{ends[1]}{due}",
        )
        if self._chance.random() < 0.03:
            self._time = departure - 10 * _MINUTE
            yield self._message("RZ", f"cancellation>{self._identity}{ends[0]}{ends[1]}")
            return
        if self._chance.random() < 0.15:
            self._time += self._chance.uniform(2, 10) * _MINUTE
            self._level -= 20
            change = f'<change field="08">{self._level:03}</change>'
            yield self._message("AF", f"amendment>{self._identity}{ends[0]}{ends[1]}{change}")
        self._time = departure
        left = f'<departureTime status="A">{_clock(departure)}</departureTime>'
        yield self._message(
            "DZ", f"departure>{self._identity}{self._aircraft}{ends[0]}{left}{ends[1]}{due}"
        )
        yield from self._tracks(ends)
        landed = f'<arrivalTime status="A">{_clock(self._time)}</arrivalTime>'
        yield self._message("AZ", f"arrival>{self._identity}{ends[0]}{ends[1]}{landed}")

    def _tracks(self, ends: tuple[str, str]) -> Iterator[_Message]:
        """A position each minute, and a crossing at each boundary between centres."""
        centre = _centre(self._position())
        while self._length - self._flown > 5:
            speed = self._fly()
            mode = "" if self._altitude == self._level else ' mode="C"'
            state = (
                f'<speed type="ground">{speed}</speed>'
                f'<altitude type="reported"{mode}>{self._altitude:03.0f}</altitude>'
                f"{_coordinate(self._position())}"
            )
            if _centre(self._position()) != centre:
                crossing = f"<crossingTime>{_clock(self._time)}</crossingTime>"
                yield self._message(
                    "UZ",
                    f"boundaryCrossing>{self._identity}{self._aircraft}{state}{crossing}"
                    f"{ends[0]}{ends[1]}",
                    centre,
                )
                centre = _centre(self._position())
            yield self._message("TZ", f"track>{self._identity}{state}")

    def _fly(self) -> int:
        """Fly for a minute; return the ground speed in knots."""
        self._time += _MINUTE + self._chance.uniform(-2, 2)
        share = self._altitude / self._level
        speed = round(160 + (self._cruise - 160) * share + self._chance.uniform(-6, 6))
        left = self._length - self._flown
        # The descent is flown at two thirds of the speed on average.
        if left <= self._altitude / _DESCENT * self._cruise * 0.65 / 60:
            self._altitude = max(self._altitude - _DESCENT, 10.0)
        else:
            self._altitude = min(self._altitude + _CLIMB, float(self._level))
        self._flown += speed / 60
        return speed

    def _position(self) -> Point:
        share = min(self._flown / self._length, 1.0)
        start, end = _AIRPORTS[self._origin], _AIRPORTS[self._destination]
        return (
            start[0] + (end[0] - start[0]) * share,
            start[1] + (end[1] - start[1]) * share,
        )

    def _message(self, kind: str, content: str, centre: str | None = None) -> _Message:
        """`content` is an element without its first `<` and its end tag."""
        facility = centre or _centre(self._position())
        name = content.partition(">")[0]
        return _Message(self._time, kind, facility, f"<{content}</{name}>")


def _distance(here: Point, there: Point) -> float:
    north = (there[0] - here[0]) * 60
    west = (there[1] - here[1]) * 60 * math.cos(math.radians((here[0] + there[0]) / 2))
    return math.hypot(north, west)


def _centre(point: Point) -> str:
    return min(_CENTRES, key=lambda name: _distance(point, _CENTRES[name]))


def _clock(time: float) -> str:
    moment = datetime.fromtimestamp(0, UTC) + timedelta(seconds=time)
    return f"{moment:%H%M}"


def _coordinate(point: Point) -> str:
    north, west = (round(part * 60) for part in point)
    return (
        f"<coordinate><lat>{north // 60:02}{north % 60:02}N</lat>"
        f"<lon>{west // 60:03}{west % 60:02}W</lon></coordinate>"
    )
