"""Losses of links between sites, and the handshake that waits for their recovery."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from broker.event.flow import make_flow
from broker.event.place import Mark
from broker.transport.order import VARIANTS, MessageId, OrderSettings
from broker.transport.view import LinkState
from plugins.rcm.effects import GroupEffect, ReportMissing, ReportStatus
from plugins.rcm.entries import Entries, GroupName
from plugins.rcm.group import Group
from plugins.rcm.handshake import Loss, Terms, decode_offer
from plugins.rcm.link_owner import LinkOwner
from plugins.rcm.losses import MOST_RECOVERY, RECOVERY_PATIENCE, FlowProgress, Losses
from plugins.rcm.site_list import SiteList

SITES = ("a", "b")
PATTERNS = ("chat.>", "ops.>")


class Node:
    """The log of one site: its coverage of the other one's flows."""

    def __init__(self) -> None:
        self.marks: dict[str, Mark] = {}

    def cover(self, mark: Mark, *patterns: str) -> None:
        self.marks |= {make_flow("0a", pattern): mark for pattern in patterns or PATTERNS}

    def coverage_of(self, flow: str) -> Mark:
        return self.marks.get(flow, (0, 0))


def make_losses() -> tuple[Node, Losses]:
    node = Node()
    return node, Losses(2, FlowProgress(PATTERNS, node.coverage_of))


class End:
    """The end of a site of its link to the other one."""

    def __init__(self, site: str) -> None:
        self.site, self.node = site, Node()
        variant = VARIANTS["logical"]
        core = variant.create_core(site, 1, OrderSettings(), 0)
        entries = Entries(GroupName("ops-order", "logical"), core, lambda _: 0)
        self.group = Group(
            *(site, 1, SITES, PATTERNS, core, variant.create_codec(SITES), entries, round),
            self.node.coverage_of,
        )
        self.told: list[GroupEffect] = []
        self.connect_anew()

    def connect_anew(self) -> None:
        (other,) = (each for each in SITES if each != self.site)
        self.group.losses.begin_link(other)
        terms = Terms(2, "logical", 0.25)
        records = SiteList.from_configuration(dict.fromkeys(SITES, "tcp:host=h:port=1"))
        membership: Any = Mock(sites=records)
        self.owner = LinkOwner(
            *(
                self.group,
                other,
                terms,
                membership,
                f"0{self.site}",
                round,
                lambda _, told: self.told.extend(told),
            )
        )


def offer(one: End, other: End, now: float = 0.0) -> bool:
    """Return whether the first end counts the other one as connected."""
    answer = other.owner.answer_offer(one.owner.make_offer(now), now)
    return answer is not None and one.owner.accept_answer(answer, now)


def test_a_site_neither_offers_nor_answers_until_its_node_has_all_flows() -> None:
    a, b = End("a"), End("b")
    assert offer(a, b) and offer(b, a)
    a.group.losses.record_released(1, 7, (1, 40))
    a.group.losses.record_loss("b")
    assert not offer(a, b)
    assert decode_offer(b.owner.make_offer(1.0)).clock is None
    assert not offer(b, a)
    b.node.cover((1, 40), "ops.>")
    assert not offer(a, b)
    # The group has the events of the other flow, which are not logged yet.
    b.group._progress.record(make_flow("0a", "chat.>"), (1, 41))
    assert offer(a, b) and offer(b, a)


def test_lost_messages_that_no_log_has_are_told_before_the_status() -> None:
    a, b = End("a"), End("b")
    assert offer(b, a)
    b.group._inboxes["a"].pass_message(MessageId("a", 1, 4))
    a.group.losses.record_released(1, 7, (1, 40))
    a.group.losses.record_loss("b")
    b.node.cover((1, 40))
    b.told.clear()
    assert offer(b, a)
    connected = ReportStatus("a", LinkState.CONNECTED, "")
    assert b.told == [ReportMissing("a", 1, 5, 7), connected]
    b.told.clear()
    assert offer(b, a) and b.told == [connected]


def test_a_new_end_of_a_link_has_lost_all_messages_in_both_directions() -> None:
    a, b = End("a"), End("b")
    assert offer(b, a)
    a.group.losses.record_released(1, 7, (1, 40))
    b.group.losses.record_released(1, 3, (1, 20))
    a.connect_anew()
    assert a.group.losses.loss_to("b").number == 7
    assert not offer(b, a)
    assert b.group.losses.loss_to("a").number == 3


def test_a_recovery_ends_after_a_time_without_progress() -> None:
    node, losses = make_losses()
    losses.accept("a", Loss(1, 1, 9, (1, 90)))
    assert losses.is_recovering("a", "0a", 0.0)
    node.cover((1, 10))
    assert losses.is_recovering("a", "0a", RECOVERY_PATIENCE - 1.0)
    assert losses.is_recovering("a", "0a", RECOVERY_PATIENCE + 1.0)
    assert not losses.is_recovering("a", "0a", 2 * RECOVERY_PATIENCE)
    # The same loss is not waited for again, a later one is.
    assert not losses.is_recovering("a", "0a", 2 * RECOVERY_PATIENCE + 1.0)
    assert losses.recovered_loss("a", "0a") is None
    losses.accept("a", Loss(1, 1, 10, (1, 91)))
    assert losses.is_recovering("a", "0a", 2 * RECOVERY_PATIENCE + 2.0)


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_recovery_ends_in_any_case_but_not_without_a_connection(is_paused: bool) -> None:
    node, losses = make_losses()
    losses.accept("a", Loss(1, 1, 9, (2, 0)))
    now = 0.0
    while now < MOST_RECOVERY:
        assert losses.is_recovering("a", "0a", now)
        node.cover((1, round(now) + 1))
        now += 30.0
    if is_paused:
        losses.pause("a")
    assert losses.is_recovering("a", "0a", now) == is_paused
