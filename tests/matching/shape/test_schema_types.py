"""Events of types with a schema: what the schema refuses is never recognised by a shape."""

from __future__ import annotations

from broker.matching.contract import Accepted, Refused
from broker.matching.switch import Switch
from tests.dtd.xsd.schema_types import flight_text, load
from tests.matching.conftest import KnownDtds, event


def test_an_event_that_the_schema_refuses_is_refused_after_any_number_of_valid_ones() -> None:
    engine = Switch(KnownDtds(load(flight_text())), clock=lambda: 0.0)
    for number in range(8):
        (good,) = engine.match([event(b"<flight><altitude>%d</altitude></flight>" % number)])
        (bad,) = engine.match([event(b"<flight><altitude>%d</altitude></flight>" % (601 + number))])
        assert isinstance(good, Accepted) and isinstance(bad, Refused), number
