"""Templates with equal comparisons: the work grows linearly with their number."""

from __future__ import annotations

import sys
from typing import Any

from broker.dtd.dtd import Dtd
from broker.event.stream import StreamPattern
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from tests.matching.conftest import KnownDtds
from tests.matching.engine.test_hostile import flight, leg


def work(dtd: Dtd, templates: int) -> int:
    """Return the number of calls for one recognised document, including built-in functions."""
    engine = Switch(KnownDtds(dtd), clock=lambda: 0.0)
    for number in range(templates):
        query = parse_query(f"/flight/leg/altitude + {number} > 1000")
        engine.subscribe(StreamPattern.parse("other"), query)
    document = flight(leg(900_000))
    for _ in range(30):
        engine.match([document])
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        engine.match([document])
    finally:
        sys.setprofile(None)
    assert engine.statistics()["unready_shapes"] == 0
    return calls


def test_twice_as_many_templates_are_twice_the_work(flight_dtd: Dtd) -> None:
    assert work(flight_dtd, 400) < 3 * work(flight_dtd, 200)
