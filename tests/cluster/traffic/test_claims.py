"""Ranges that other nodes select without this node's interest."""

from __future__ import annotations

import pytest

from broker.cluster.traffic.claims import CARRIER_GRACE_SECONDS, FLOW_GRACE_SECONDS, Claims
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.missing_range import RETRY_SECONDS
from broker.cluster.traffic.received_range import AppendRange, ReceivedRange, RequestPage
from broker.cluster.traffic.receiver import Receiver
from broker.event.place import Mark
from tests.cluster.traffic.frames import frame
from tests.cluster.traffic.test_receiver import ME

FLOW = "0a/asdi.>"


class Node:
    """A node at the place 1:5 of a flow."""

    def __init__(self, unclaimed: Mark = (9, 0), *, gets_all: bool = False) -> None:
        self.coverage: dict[str, Mark] = {FLOW: (1, 5)}
        claims = Claims(lambda _: unclaimed, lambda _: gets_all)
        self.core = Receiver(self.coverage.get, claims=claims)

    def receive(self, span: Range, now: float = 0.0, *, is_carried: bool = False) -> list[object]:
        received = ReceivedRange(span, frame([span], origin=FLOW), 0, is_carried=is_carried)
        return list(self.core.receive_range(received, now))


def span(after: int, upto: int, **changes: object) -> Range:
    return Range(ME, (1, after), (1, upto))._replace(**changes)  # type: ignore[arg-type]


def test_an_end_of_the_network_is_no_claim_and_its_page_is_unfiltered() -> None:
    node = Node()
    assert node.receive(span(5, 9)) == []
    # The transport has time to state that nothing was before it.
    assert node.core.next_timeout() == CARRIER_GRACE_SECONDS
    (request,) = node.core.handle_timeout(CARRIER_GRACE_SECONDS)
    assert isinstance(request, RequestPage) and request.is_unfiltered and request.after == (1, 5)
    (appended,) = node.receive(span(5, 9, is_unfiltered=True), 6.0)
    assert isinstance(appended, AppendRange) and node.core.position_of(FLOW) == (1, 9)


@pytest.mark.parametrize("gets_all", [False, True])
def test_an_empty_range_of_a_flow_that_comes_whole_claims_nothing(gets_all: bool) -> None:
    """Its origin may not have this node's interest yet."""
    node = Node(unclaimed=(0, 0), gets_all=gets_all)
    effects = node.receive(span(5, 9))
    if gets_all:
        assert not effects
        (request,) = node.core.handle_timeout(FLOW_GRACE_SECONDS)
        assert isinstance(request, RequestPage) and request.is_unfiltered
        effects = node.receive(span(5, 9, is_unfiltered=True), 1.0)
    assert len(effects) == 1 and node.core.position_of(FLOW) == (1, 9)


def test_the_transport_answers_before_a_page_is_requested() -> None:
    node = Node()
    node.receive(span(5, 9))
    assert len(node.receive(span(5, 9), 1.0, is_carried=True)) == 1
    assert node.core.position_of(FLOW) == (1, 9) and node.core.next_timeout() is None


def test_a_missing_range_before_one_of_the_transport_is_requested_sooner() -> None:
    node = Node()
    node.receive(span(5, 9))
    node.receive(span(7, 9), 1.0, is_carried=True)
    assert node.core.next_timeout() == 1.0 + FLOW_GRACE_SECONDS < 1.0 + RETRY_SECONDS


def test_ranges_count_behind_the_cut_of_interest_that_was_announced_later() -> None:
    node = Node(unclaimed=(1, 7))
    assert node.receive(span(5, 9)) == []
    assert len(node.receive(span(5, 7), is_carried=True)) == 2
    assert node.core.position_of(FLOW) == (1, 9)


def test_a_new_flow_begins_where_the_whole_range_does() -> None:
    node = Node()
    del node.coverage[FLOW]
    node.receive(span(3, 9))
    assert node.core.position_of(FLOW) == (1, 3)
