"""Pages of a replica with damage that can not be repaired."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.cluster.address import Address
from broker.cluster.replicas.service import Replicas
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.lost_logs import NoGoneLogs
from broker.cluster.traffic.messages import PageRequest
from broker.event.origin import new_origin
from broker.event.place import Mark
from broker.log.damage import Damage, DamageFound, DamageKind, Span
from broker.log.logged_event import LoggedEvent
from tests.log.test_event_log import HEADER_RECORD

KEEPER, READER = Address(("c",), "keeper"), Address(("c",), "reader")
SIGNED, EARLIER = new_origin(1_700_000_000_000, bytes(32)), "f" * 16


def pages_of(origin: str, *, given_up: bool) -> list[Frame]:
    """The replica has 1 to 9, and 3 to 5 are damaged."""
    sent: list[Frame] = []

    async def read_replica(_: str, after: Mark, *__: Any, wait: bool) -> list[LoggedEvent]:
        if 2 <= after[1] < 5:
            raise DamageFound(
                Damage("kept", b"", 3, 5, DamageKind.EVENT, (Span(origin, (1, 2), (1, 5)),))
            )
        last = 9 if after[1] >= 5 else 2
        return [
            LoggedEvent(1, n, 5, 0, HEADER_RECORD, b"<a/>", origin, n)
            for n in range(after[1] + 1, last + 1)
        ]

    log = SimpleNamespace(
        origin="own",
        flows=SimpleNamespace(
            since=lambda _: (0, 0), limit=lambda _, mark: mark, select_flow=lambda events, _: events
        ),
        replica_spans={origin: SimpleNamespace(after=(1, 0), upto=(1, 9), owner="")},
        repairs=SimpleNamespace(is_given_up=lambda _: given_up),
        read_replica=read_replica,
    )
    replicas = Replicas(
        cast(Any, log),
        cast(Any, None),
        *(lambda *_: None, lambda _: None, lambda: KEEPER, sent.append, lambda *_: False),
        gone=NoGoneLogs(),
    )
    replicas.send_page(PageRequest(KEEPER, READER, 9, origin, (1, 2)))
    return sent


def test_the_keeper_of_a_signed_log_sends_what_follows_the_damage() -> None:
    """It can not sign that the events before are lost."""
    (frame,) = pages_of(SIGNED, given_up=True)
    (span,) = frame.ranges
    assert (span.after, span.upto, span.unavailable_upto) == ((1, 5), (1, 9), None)
    assert frame.event_count == 4


def test_the_keeper_of_an_earlier_log_reports_the_damage() -> None:
    (frame,) = pages_of(EARLIER, given_up=True)
    assert frame.ranges[0].unavailable_upto == (1, 5)


@pytest.mark.parametrize("origin", [SIGNED, EARLIER])
def test_damage_that_may_be_repaired_is_awaited(origin: str) -> None:
    assert pages_of(origin, given_up=False) == []
