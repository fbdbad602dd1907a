"""Events of an origin whose DTD has the name of another DTD (T26)."""

from __future__ import annotations

import time

import pytest
from twisted.internet.task import Clock

from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.dtd.reference import DtdReference
from broker.event.envelope import EventType, Liveness
from broker.event.event_id import EventId
from broker.event.stream import StreamPattern
from broker.event.writer import write_event
from broker.matching.contract import Accepted, DtdNeeded, IMatcher, TypeMissing
from broker.matching.query.query import parse_query
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.switch import Switch

REPORT = DtdReference("report", "1.0")
PAYLOAD = b"<report><id>F</id><reportleg><altitude>4</altitude></reportleg></report>"


def dtd_text(default: str) -> bytes:
    shipped = (shipped_folder() / "flight-1.0.dtd").read_text().replace("flight", "report")
    declared = "<!ATTLIST altitude\n          type NMTOKEN "
    return shipped.replace(f"{declared}#IMPLIED", f'{declared}"{default}"').encode()


@pytest.mark.parametrize("engine", [Switch, ReferenceMatcher])
def test_each_event_is_validated_by_the_given_dtd(
    engine: type[Switch] | type[ReferenceMatcher],
) -> None:
    dtds = DtdCache(Catalogue.load(shipped_folder()), [], CacheLimits(), Clock())
    dtds.add(REPORT, dtd_text("own"))
    other = DtdReference("report", "1.0", dtds.compile_text(REPORT, dtd_text("other")).content_hash)
    matcher: IMatcher = engine(dtds, time.perf_counter)
    numbers = {
        kind: matcher.subscribe(
            StreamPattern.parse(">"),
            parse_query(f"/report/reportleg/altitude/@type = '{kind}'"),
        )
        for kind in ("own", "other")
    }
    documents = [
        write_event(EventId("c", 1, number, 1), "s", EventType("report", "1.0"), PAYLOAD)
        for number in range(1, 6)
    ]
    variants = {REPORT: other}
    # The first documents teach shapes, which must not apply to the others.
    for _ in range(2):
        verdicts = matcher.match(documents)
        assert [v.subscriptions for v in verdicts if isinstance(v, Accepted)] == [
            (numbers["own"],)
        ] * 5
    assert matcher.match(documents, variants=variants) == [TypeMissing(other, REPORT.system_id)] * 5
    with pytest.raises(DtdNeeded):
        matcher.select(numbers["own"], documents, Liveness.LIVE, variants=variants)
    dtds.add(other, dtd_text("other"))
    verdicts = matcher.match(documents, variants=variants)
    assert [v.subscriptions for v in verdicts if isinstance(v, Accepted)] == [
        (numbers["other"],)
    ] * 5
    for kind, number in numbers.items():
        found = matcher.select(number, documents, Liveness.LIVE, variants=variants)
        assert found == [kind == "other"] * 5
        assert matcher.select(number, documents, Liveness.LIVE) == [kind == "own"] * 5
    verdicts = matcher.match(documents)
    assert [v.subscriptions for v in verdicts if isinstance(v, Accepted)] == [(numbers["own"],)] * 5
