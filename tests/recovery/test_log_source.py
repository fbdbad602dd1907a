"""Recovery from several logs with different missing events."""

from __future__ import annotations

from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, succeed

from broker.cluster.address import Address
from broker.delivery.recovery_contract import RecoveryRequest
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import parse_query
from broker.recovery.context import RecoveryContext
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.log_source import LogSource
from broker.recovery.origin_reader import OriginReader
from broker.recovery.planner import RemainingRanges
from tests.recovery.test_log_merge import logged

ORIGIN = "far"
HOME, KEEPER = Address(("c",), "home"), Address(("c",), "keeper")
#: Each page ends before the missing offsets.
LACKS = {HOME: {3}, KEEPER: {5, 6}}
LAST: Mark = (1, 9)


class Nodes:
    def fetch_page(self, node: Address, request: LogPageRequest) -> Deferred[Page]:
        (after, upto) = request.ranges[ORIGIN]
        assert upto is not None
        events: list[LoggedEvent] = []
        offset = after[1]
        while offset < upto[1] and offset + 1 not in LACKS[node]:
            offset += 1
            events.append(logged(ORIGIN, offset, offset, "p", offset))
        reached = {ORIGIN: (1, offset)} if events else {}
        begins: dict[str, Mark] = {}
        if offset < upto[1]:
            while offset + 1 in LACKS[node]:
                offset += 1
            begins = {ORIGIN: (1, offset)}
        return succeed(Page(events, reached, 0, begins=begins, origin=ORIGIN))

    def has_log_or_replica(self, origin: str) -> bool:
        return False


def test_the_rest_comes_from_the_nearest_place_where_a_log_continues() -> None:
    nodes = Nodes()
    context = RecoveryContext(
        "own",
        cast(Any, nodes),
        cast(Any, nodes),
        lambda _: [HOME, KEEPER],
        lambda _: True,
        None,
        cast(Any, None),
        0.0,
    )
    missed = RecoveryRequest(
        StreamPattern.parse(">"), parse_query("true()"), 2, {ORIGIN: ((1, 0), LAST)}
    )
    logs = LogSource(missed, context, RemainingRanges(missed.ranges))
    found: list[int] = []

    async def read() -> None:
        async for events in logs.read_origin_logs(archive_follows=False):
            found.extend(event.offset for event in events)
        async for events in logs.read_log_ends():
            found.extend(event.offset for event in events)

    Deferred.fromCoroutine(read())
    assert found == [1, 2, 3, 4, 7, 8, 9]
    assert logs.missing_ranges == [(ORIGIN, (1, 4), (1, 6))]


@pytest.mark.parametrize(
    ("begins", "upto", "missing"),
    [
        ({(1, 6), (2, 7)}, (2, 9), (2, 7)),
        ({(2, 6), (2, 7)}, None, (2, 6)),
        ({(1, 6), (3, 4), (3, 3)}, (3, 9), None),
        ({(2, 8)}, (2, 7), None),
    ],
)
def test_a_log_continues_only_behind_the_read_part(
    begins: set[Mark], upto: Mark | None, missing: Mark | None
) -> None:
    """Marks of other branches may have higher offsets, and those of later epochs lower ones."""
    ranges = {ORIGIN: ((2, 4), upto)}
    missed = RecoveryRequest(StreamPattern.parse(">"), parse_query("true()"), 2, ranges)
    logs = LogSource(missed, cast(Any, None), RemainingRanges(ranges))
    logs._available_from = {ORIGIN: begins}
    assert logs._skip_to_available() is (missing is not None)
    assert logs.missing_ranges == ([] if missing is None else [(ORIGIN, (2, 4), missing)])


def test_a_branch_is_read_also_behind_a_missing_range() -> None:
    sources = OriginReader(ORIGIN, cast(Any, Nodes()), None, lambda text, _: parse_query(text))
    found: list[int] = []

    async def read() -> None:
        async for events in sources.recover_from_node(KEEPER, (1, 0), LAST):
            found.extend(event.offset for event in events)

    Deferred.fromCoroutine(read())
    assert sorted(set(found)) == [1, 2, 3, 4, 7, 8, 9]
