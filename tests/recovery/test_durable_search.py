"""Whom a node asks for a durable subscription, and what it takes for an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import attrs
from twisted.internet.task import Clock

from broker.cluster.address import Address, UnitPath
from broker.cluster.known_peers import PEER_EXPIRY
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import RoutedMessage
from broker.recovery.durable_search import (
    ANSWER_MS,
    BATCH_DELAY,
    CHECK_INTERVAL,
    RETURN_TIME,
    DurableSearch,
)
from broker.recovery.messages import DurablesFound, FindDurables

HERE = Address(("c",), "here")
NEAR, FAR = ("near",), ("far",)
AT_NEAR = [Address(NEAR, name) for name in ("n1", "n2", "n3")]
AT_FAR = Address(FAR, "f1")


@attrs.define
class Post:
    """What is said is kept; all gateways can be reached."""

    gateways: Mapping[UnitPath, Sequence[Address]]
    own_address: Address = HERE
    said: list[FindDurables] = attrs.field(factory=list)
    listeners: dict[type[RoutedMessage], Callable[[Any], object]] = attrs.field(factory=dict)
    silent: Sequence[str] = ()

    def list_unreachable_origins(self) -> Sequence[str]:
        return self.silent

    def add_listener(self, kind: type[RoutedMessage], listener: Callable[[Any], object]) -> None:
        self.listeners[kind] = listener

    def send(self, message: FindDurables) -> None:
        self.said.append(message)

    def is_reachable(self, address: Address) -> bool:
        return True

    def next_request_number(self) -> int:
        return 100 + len(self.said)

    def gateways_by_unit(self) -> Mapping[UnitPath, Sequence[Address]]:
        return self.gateways


@attrs.define
class Asking:
    """A node that seeks the subscription `d` of one client after the other."""

    post: Post
    clock: Clock = attrs.field(factory=Clock)
    seeking: DurableSearch = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.seeking = DurableSearch(cast(Any, self.post), cast(Any, None), self.clock)

    def seek(self, client_id: str = "rover") -> list[tuple[list[Address], bool]]:
        """What is found once somebody has answered, and whether all have."""
        found: list[tuple[list[Address], bool]] = []
        self.seeking.find_holders(client_id, "d").addCallback(found.append)
        self.clock.advance(BATCH_DELAY)
        return found

    def answer(self, question: FindDurables, *addresses: str, whole: bool = True) -> None:
        told = tuple((0, address) for address in addresses)
        answer = DurablesFound(HERE, question.target, MAX_HOPS, question.request, told, whole)
        self.post.listeners[DurablesFound](answer)


def test_where_a_subscription_is_comes_from_the_nodes_that_are_asked() -> None:
    asking = Asking(Post({NEAR: AT_NEAR[:1], FAR: [AT_FAR]}))
    found = asking.seek()
    of_far, of_near = asking.post.said
    assert [(each.target, each.unit) for each in (of_far, of_near)] == [
        (AT_FAR, FAR),
        (AT_NEAR[0], NEAR),
    ]
    holder = Address(("near", "by"), "holder")
    asking.answer(of_near, str(holder), "no address")
    assert not found
    asking.answer(of_far)
    assert found == [([holder], True)]


def test_a_unit_that_does_not_answer_hides_nothing_that_another_one_tells() -> None:
    asking = Asking(Post({NEAR: AT_NEAR[:1], FAR: [AT_FAR]}))
    found = asking.seek()
    asking.answer(asking.post.said[1], str(AT_NEAR[1]))
    asking.clock.advance(ANSWER_MS / 1000)
    assert found == [([AT_NEAR[1]], False)]


def test_what_nobody_has_may_be_where_nobody_answered() -> None:
    asking = Asking(Post({NEAR: AT_NEAR[:1], FAR: [AT_FAR]}))
    found = asking.seek()
    asking.answer(asking.post.said[1])
    asking.clock.advance(ANSWER_MS / 1000)
    assert found == [([], False)]
    found = asking.seek("other")
    for question in asking.post.said[2:]:
        asking.answer(question)
    assert found == [([], True)]


def test_all_gateways_of_a_unit_are_asked_in_turn() -> None:
    """One of them may be silent, and who seeks asks again."""
    for count in (2, 3):
        asking = Asking(Post({NEAR: AT_NEAR[:count]}))
        for _ in range(count):
            asking.seek()
            asking.clock.advance(ANSWER_MS / 1000)
        assert {question.target for question in asking.post.said} == {*AT_NEAR[:count]}


def test_a_node_that_fell_silent_is_expected_for_a_while_and_counted_for_a_day() -> None:
    asking = Asking(Post({}))
    asking.seeking.track_silent_nodes()
    asking.clock.advance(CHECK_INTERVAL - 1)
    asking.post.silent = ("x",)
    asking.seeking.track_silent_nodes()
    asking.clock.advance(1.0)
    asking.seeking.track_silent_nodes()
    asking.clock.advance(RETURN_TIME - 0.5)
    asking.seeking.track_silent_nodes()
    assert asking.seeking.count_silent() == (True, 1)
    asking.clock.advance(0.5)
    assert asking.seeking.count_silent() == (False, 1)
    asking.clock.advance(PEER_EXPIRY)
    assert asking.seeking.count_silent() == (False, 0)


def test_who_asks_looks_at_once_who_is_silent() -> None:
    asking = Asking(Post({}))
    asking.seeking.track_silent_nodes()
    asking.clock.advance(1.0)
    asking.post.silent = ("x",)
    assert asking.seeking.count_silent() == (True, 1)
    asking.post.silent = ()
    # Clients that come together are answered by one look.
    assert asking.seeking.count_silent() == (True, 1)
    asking.clock.advance(BATCH_DELAY)
    assert asking.seeking.count_silent() == (False, 0)


def test_a_node_that_was_silent_before_this_one_began_is_expected_and_not_counted() -> None:
    asking = Asking(Post({}, silent=("x",)))
    asking.clock.advance(1.0)
    assert asking.seeking.count_silent() == (True, 0)
    asking.clock.advance(RETURN_TIME)
    assert asking.seeking.count_silent() == (False, 0)
