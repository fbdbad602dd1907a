"""Subscriptions of the soak, with the same condition in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import attrs

from broker.testing.guarantees import Kind, Published
from tests.soak.layout import DTD_FETCHING_NODES, NAMES

#: Events on streams below `safe` are acknowledged when a neighbour has a copy.
STREAMS: Final = ("safe.zbw.tz", "safe.zny.ho", "quick.zbw.tz", "quick.zny.ho")
ALTITUDES: Final = (7, 100, 250, 600, 1000)
LEVELS: Final = ("low", "med", "high")


@attrs.frozen
class Interest:
    """The client's name starts with its account."""

    client: str
    kind: Kind
    pattern: str
    query: str
    matches: Callable[[Published], bool]

    @property
    def account(self) -> str:
        return self.client.split("-")[0]

    @property
    def clearance(self) -> int:
        return LEVELS.index(self.account)

    @property
    def has_state_folder(self) -> bool:
        return self.kind in (Kind.POSITIONS, Kind.WORKING)


INTERESTS: Final[Mapping[str, Interest]] = {
    each.client: each
    for each in (
        Interest("high-transient", Kind.TRANSIENT, ">", "true()", lambda event: True),
        Interest("high-durable", Kind.DURABLE, ">", "true()", lambda event: True),
        Interest(
            "low-positions",
            Kind.POSITIONS,
            ">",
            "//flightleg[altitude > 200]",
            lambda event: event.value > 200,
        ),
        Interest(
            "med-working",
            Kind.WORKING,
            "safe.>",
            "/flight[flightleg/altitude < 300]",
            lambda event: (
                event.stream.startswith("safe.")
                and event.type.startswith("flight ")
                and event.value < 300
            ),
        ),
        Interest(
            "high-rare",
            Kind.POSITIONS,
            "*.*.ho",
            "$StreamId = 'safe.zny.ho' and //altitude = 7",
            lambda event: event.stream == "safe.zny.ho" and event.value == 7,
        ),
    )
}
#: After the faults they read all events at these nodes.
LATE_READERS: Final[Mapping[str, str]] = {f"high-late-{node}": node for node in DTD_FETCHING_NODES}
ALL_INTERESTS: Final[Mapping[str, Interest]] = {
    **INTERESTS,
    **{
        name: Interest(name, Kind.FROM_ALL, ">", "true()", lambda event: True)
        for name in LATE_READERS
    },
}
PUBLISHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "high-feed-1": DTD_FETCHING_NODES[:1],
    "high-feed-2": DTD_FETCHING_NODES[1:],
    "high-feed-3": NAMES,
}
