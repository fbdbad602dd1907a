from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pytest

from broker.archive.table import events_to_batch
from broker.dtd.reference import DtdReference
from broker.errors import BadQuery, from_wire
from broker.matching.document_limits import MAX_MARKUP
from broker.replay.engine.request_matcher import RequestMatcher
from broker.replay.request import ReplayRequest
from tests.recovery.world import ORIGINS, World, header_of, make_world, selects

WORLD = make_world(4)
EVENTS = list(WORLD.events.values())
BATCH = events_to_batch(EVENTS)


def matching(requests: list[ReplayRequest], world: World = WORLD) -> RequestMatcher:
    return RequestMatcher(requests, ORIGINS, world.dtds, lambda: 0.0)


def pairs(
    requests: list[ReplayRequest], world: World = WORLD, batch: pa.RecordBatch = BATCH
) -> set[tuple[int, int]]:
    found = matching(requests, world).match(batch, np.arange(len(requests)))
    got = list(zip(found.rows.tolist(), found.requests.tolist(), strict=True))
    assert got == sorted(set(got))
    return set(got)


def rows(request: ReplayRequest, world: World = WORLD) -> list[int]:
    return sorted(row for row, _ in pairs([request], world))


def test_many_requests_with_few_queries_share_subscriptions() -> None:
    queries = ["/flight/id = 'UAL7'", "//altitude > 300"]
    requests = [
        ReplayRequest(">", queries[number % 2], ranges={ORIGINS[0]: ((1, number), None)})
        for number in range(200)
    ]
    matcher = matching(requests)
    found = matcher.match(BATCH, np.arange(len(requests)))
    assert matcher._switch.statistics()["subscriptions"] == 2
    for number in (0, 1, 57, 198):
        alone = rows(requests[number])
        assert found.rows[found.requests == number].tolist() == alone


def test_inactive_requests_need_no_subscription() -> None:
    requests = [ReplayRequest(">", f"/flight/id = 'UAL{number}'") for number in range(9)]
    matcher = matching(requests)
    matcher.match(BATCH, np.array([2, 5]))
    assert matcher._switch.statistics()["subscriptions"] == 2


def test_each_event_has_the_defaults_of_its_own_version() -> None:
    old = rows(ReplayRequest(">", "/note/@kind = 'old'"))
    new = rows(ReplayRequest(">", "/note/@kind = 'new'"))
    notes = [n for n, event in enumerate(EVENTS) if header_of(event).type_name == "note"]
    assert sorted([*old, *new]) == notes
    for row in new:
        assert header_of(EVENTS[row]).version == "1.1"
    assert {header_of(EVENTS[row]).version for row in old} == {"1.0", "1.1"}


def test_an_event_invalid_by_its_dtd_is_matched() -> None:
    assert rows(ReplayRequest(">", "//bogus")) == [
        n for n, event in enumerate(EVENTS) if b"<bogus/>" in event.document
    ]
    assert rows(ReplayRequest(">", "//bogus")) != []


def test_an_event_larger_than_a_node_accepts_now_is_matched() -> None:
    event = next(each for each in EVENTS if b"<bogus/>" in each.document)
    more = b"<bogus/>" * (MAX_MARKUP + 1)
    large = attrs.evolve(event, document=event.document.replace(b"<bogus/>", more))
    request = ReplayRequest(">", f"count(//bogus) > {MAX_MARKUP}")
    assert pairs([request], batch=events_to_batch([event, large])) == {(1, 0)}


def test_an_event_without_a_dtd_is_matched() -> None:
    bare = World(WORLD.events, WORLD.rows, {})
    for query in ("/odd/@x = '1'", "/flight/id = 'UAL3'"):
        got = rows(ReplayRequest(">", query), bare)
        assert got == [n for n, event in enumerate(EVENTS) if selects(WORLD, query, event)]
        assert got != []


def test_an_invalid_dtd_counts_as_missing() -> None:
    broken = World(WORLD.events, WORLD.rows, dict.fromkeys(WORLD.dtds, b"<!ELEMENT"))
    assert rows(ReplayRequest(">", "/flight"), broken) == rows(ReplayRequest(">", "/flight"))
    matcher = matching([ReplayRequest(">", "/flight")], broken)
    assert len(matcher.dtds.problems) == len(WORLD.dtds)


def test_clearance_leaves_out_and_counts() -> None:
    requests = [ReplayRequest(">", "/flight", clearance=rank) for rank in range(3)]
    found = matching(requests).match(BATCH, np.arange(3))
    everything = found.rows[found.requests == 2].tolist()
    for rank in range(3):
        cleared = [row for row in everything if EVENTS[row].level <= rank]
        assert found.rows[found.requests == rank].tolist() == cleared
        assert found.denied[rank] == sum(event.level > rank for event in EVENTS)
    assert found.denied[0] > found.denied[1] > 0


def test_clearance_limits_requests_without_a_query() -> None:
    requests = [ReplayRequest(">", "true()", clearance=rank) for rank in range(3)]
    found = matching(requests).match(BATCH, np.arange(3))
    for rank in range(3):
        cleared = [row for row, event in enumerate(EVENTS) if event.level <= rank]
        assert found.rows[found.requests == rank].tolist() == cleared
    assert {event.level for event in EVENTS} == {0, 1, 2}


def test_a_batch_above_the_clearance_is_denied_as_a_whole() -> None:
    rows = [row for row, event in enumerate(EVENTS) if event.level > 0]
    request = ReplayRequest(">", "/flight", clearance=0)
    found = matching([request]).match(BATCH.take(pa.array(rows)), np.arange(1))
    assert found.denied.tolist() == [len(rows)] and len(found.rows) == 0


def test_events_of_an_unknown_origin_match_nothing() -> None:
    matcher = RequestMatcher([ReplayRequest(">", "true()")], ORIGINS[:1], WORLD.dtds, lambda: 0.0)
    found = matcher.match(BATCH, np.array([0]))
    assert {EVENTS[row].origin for row in found.rows} == {ORIGINS[0]}


def test_invalid_documents_are_counted_and_match_no_query() -> None:
    documents = pa.array([b"<no", *(event.document for event in EVENTS[1:])], pa.binary())
    batch = BATCH.set_column(BATCH.schema.get_field_index("document"), "document", documents)
    matcher = matching([ReplayRequest(">", "not(/nothing)"), ReplayRequest(">", "true()")])
    found = matcher.match(batch, np.array([0, 1]))
    assert matcher.unreadable == 1
    assert 0 not in found.rows[found.requests == 0]
    # Requests without a query get every acknowledged event.
    assert 0 in found.rows[found.requests == 1]


def test_only_an_invalid_query_fails() -> None:
    matcher = matching([ReplayRequest(">", "//x["), ReplayRequest(">", "/flight")])
    found = matcher.match(BATCH, np.array([0, 1]))
    assert isinstance(from_wire(matcher.failed[0]), BadQuery)
    assert set(found.requests.tolist()) == {1}


@pytest.mark.parametrize("reference", [DtdReference("flight", "1.0")])
def test_requests_without_a_query_need_no_dtd(reference: DtdReference) -> None:
    matcher = matching([ReplayRequest("asdi.>", "true()")], World(WORLD.events, WORLD.rows, {}))
    found = matcher.match(BATCH, np.array([0]))
    assert len(found.rows) > 0
    assert reference not in matcher.dtds.undescribed
