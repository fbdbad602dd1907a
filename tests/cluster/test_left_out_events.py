"""Events at places that a node has passed without them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from broker.cluster.left_out_events import LeftOutEvents
from broker.cluster.relay_ingest import MOST_WAITING_BYTES
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from tests.cluster.test_relay_ingest import HOME, Setting

FLOW = "far"


class Node:
    """A node whose position in the flow is 10, with an interest in its events."""

    def __init__(self) -> None:
        self.setting = Setting()
        self.reported: list[tuple[int, Collection[int] | None]] = []
        self.received: list[int] = []
        self.has_match = True
        log: Any = self.setting.log
        self.left_out = LeftOutEvents(
            *(self.setting.ingest, log, lambda _: (1, 10), self._receive_range),
            has_local_match=lambda numbers: self.has_match,
            report=lambda flow, event, numbers, _: self.reported.append((event.mark[1], numbers)),
        )

    def _receive_range(self, flow: str, after: Mark, upto: Mark, *_: object) -> None:
        assert after == (1, upto[1] - 1)
        self.received.append(upto[1])

    def take(self, *places: int) -> None:
        events = [CarriedEvent((1, each), b"\x90", b"%d" % each) for each in places]
        upto = events[-1].mark
        batch = FlowBatch(FLOW, "/origin", (1, places[0] - 1), upto, events, is_late=True)
        self.left_out.take(batch, HOME)


def test_they_are_reported_behind_the_events_that_are_being_committed() -> None:
    node = Node()
    node.setting.take(8, 9, FLOW)
    node.take(5, 7)
    assert node.reported == []
    node.setting.log.commit()
    assert node.reported == [(5, (7,)), (7, (7,))]
    assert node.setting.log.logged == [(1, 8), (1, 9)]


def test_the_log_begins_behind_them() -> None:
    node = Node()
    node.take(5, 7)
    ((relayed, _),) = node.setting.log.pending
    assert (relayed.lost_upto, relayed.covered_upto, relayed.entries) == ((1, 7), (1, 7), [])


def test_an_event_that_the_log_has_from_elsewhere_is_not_lost() -> None:
    node = Node()
    node.setting.take(5, 5, FLOW)
    node.take(5)
    node.setting.log.commit()
    assert node.reported == []


def test_an_unwanted_event_is_not_lost() -> None:
    node = Node()
    node.has_match = False
    node.take(5)
    assert node.reported == [] and not node.setting.log.pending


def test_an_event_ahead_of_the_position_is_received_in_its_place() -> None:
    node = Node()
    node.take(9, 11, 12)
    node.setting.log.commit()
    assert node.received == [11, 12] and node.reported == [(9, (7,))]


def test_what_can_not_be_matched_or_logged_now_is_reported_all_the_same() -> None:
    node = Node()
    node.setting.log.resting = True
    node.setting.ingest.waiting_bytes = MOST_WAITING_BYTES
    node.take(5)
    node.setting.log.commit(fails=True)
    assert node.reported == [(5, None)]
