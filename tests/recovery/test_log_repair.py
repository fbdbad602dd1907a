"""Own events and replicas are not repaired with placeholders of refused events."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.event.place import Mark
from broker.event.placeholder import make_placeholder
from broker.log.chunk_table import EVENTS
from broker.log.damage import Damage, DamageKind, Span
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import REPLICA_TABLE
from broker.matching.query.query import parse_query
from broker.recovery.context import RecoveryContext
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.log_repair import LogRepair
from tests.recovery.test_log_merge import logged


class Exchange:
    """A node that refused the second of two events."""

    def fetch_page(self, node: Address, request: LogPageRequest) -> Deferred[Page]:
        (origin,) = request.ranges
        first, second = (logged(origin, n, n, "p", n) for n in (1, 2))
        refused = attrs.evolve(second, document=make_placeholder("not-valid", b"<x/>"))
        return succeed(Page([first, refused], {origin: (1, 2)}, 0))


@attrs.define
class Log:
    origin: str = "own"
    flows: KnownFlows = attrs.field(factory=lambda: KnownFlows("own", {}))
    replica_spans: dict[str, Any] = attrs.field(factory=dict)


@pytest.mark.parametrize(
    ("table", "origin", "offsets"),
    [(EVENTS, "own", [1]), (REPLICA_TABLE, "far", [1]), (EVENTS, "far", [1, 2])],
)
def test_a_placeholder_repairs_only_events_that_were_relayed(
    table: str, origin: str, offsets: list[int]
) -> None:
    clock = Clock()
    node = Address(("c",), "relay")
    context = RecoveryContext(
        own_origin="own",
        page_reader=cast(Any, None),
        page_exchange=cast(Any, Exchange()),
        origin_nodes=lambda _: [node],
        is_reachable=lambda _: True,
        archive=None,
        clock=clock,
        patience=0.0,
    )
    repair = LogRepair(
        cast(Any, Log()),
        context,
        lambda _: [node],
        lambda: False,
        lambda text, _: parse_query(text),
    )
    after: Mark = (0, 0)
    damage = Damage(table, b"", 0, 1, DamageKind.HEAD, (Span(origin, after, (1, 2)),))
    found: list[list[LoggedEvent]] = []
    repair.find_events(damage).addCallback(lambda events: found.append(list(events)))
    assert [[event.offset for event in events] for events in found] == [offsets]
