"""The search of one node for a durable subscription."""

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
class Messenger:
    """Records the messages sent; all gateways are reachable."""

    gateways: Mapping[UnitPath, Sequence[Address]]
    own_address: Address = HERE
    sent: list[FindDurables] = attrs.field(factory=list)
    listeners: dict[type[RoutedMessage], Callable[[Any], object]] = attrs.field(factory=dict)
    silent: Sequence[str] = ()

    def list_unreachable_origins(self) -> Sequence[str]:
        return self.silent

    def add_listener(self, kind: type[RoutedMessage], listener: Callable[[Any], object]) -> None:
        self.listeners[kind] = listener

    def send(self, message: FindDurables, attempt: int = 0) -> None:
        self.sent.append(message)

    def is_reachable(self, address: Address) -> bool:
        return True

    def next_request_number(self) -> int:
        return 100 + len(self.sent)

    def gateways_by_unit(self) -> Mapping[UnitPath, Sequence[Address]]:
        return self.gateways


@attrs.define
class Searcher:
    messenger: Messenger
    clock: Clock = attrs.field(factory=Clock)
    search: DurableSearch = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.search = DurableSearch(cast(Any, self.messenger), cast(Any, None), self.clock)

    def find(self, client_id: str = "rover") -> list[tuple[list[Address], bool]]:
        """The list receives the result."""
        found: list[tuple[list[Address], bool]] = []
        self.search.find_holders(client_id, "d").addCallback(found.append)
        self.clock.advance(BATCH_DELAY)
        return found

    def answer(self, question: FindDurables, *addresses: str, is_complete: bool = True) -> None:
        pairs = tuple((0, address) for address in addresses)
        answer = DurablesFound(
            HERE, question.target, MAX_HOPS, question.request, pairs, is_complete
        )
        self.messenger.listeners[DurablesFound](answer)


def test_holders_come_from_the_answers() -> None:
    searcher = Searcher(Messenger({NEAR: AT_NEAR[:1], FAR: [AT_FAR]}))
    found = searcher.find()
    of_far, of_near = searcher.messenger.sent
    assert [(each.target, each.unit) for each in (of_far, of_near)] == [
        (AT_FAR, FAR),
        (AT_NEAR[0], NEAR),
    ]
    holder = Address(("near", "by"), "holder")
    searcher.answer(of_near, str(holder), "no address")
    assert not found
    searcher.answer(of_far)
    assert found == [([holder], True)]


def test_a_silent_unit_does_not_hide_other_answers() -> None:
    searcher = Searcher(Messenger({NEAR: AT_NEAR[:1], FAR: [AT_FAR]}))
    found = searcher.find()
    searcher.answer(searcher.messenger.sent[1], str(AT_NEAR[1]))
    searcher.clock.advance(ANSWER_MS / 1000)
    assert found == [([AT_NEAR[1]], False)]


def test_a_search_without_answers_is_incomplete() -> None:
    searcher = Searcher(Messenger({NEAR: AT_NEAR[:1], FAR: [AT_FAR]}))
    found = searcher.find()
    searcher.answer(searcher.messenger.sent[1])
    searcher.clock.advance(ANSWER_MS / 1000)
    assert found == [([], False)]
    found = searcher.find("other")
    for question in searcher.messenger.sent[2:]:
        searcher.answer(question)
    assert found == [([], True)]


def test_all_gateways_of_a_unit_are_asked_in_turn() -> None:
    """One of them may be silent, and the client searches again."""
    for count in (2, 3):
        searcher = Searcher(Messenger({NEAR: AT_NEAR[:count]}))
        for _ in range(count):
            searcher.find()
            searcher.clock.advance(ANSWER_MS / 1000)
        assert {question.target for question in searcher.messenger.sent} == {*AT_NEAR[:count]}


def test_a_silent_node_is_awaited_for_a_while_and_counted_for_a_day() -> None:
    searcher = Searcher(Messenger({}))
    searcher.search.track_silent_nodes()
    searcher.clock.advance(CHECK_INTERVAL - 1)
    searcher.messenger.silent = ("x",)
    searcher.search.track_silent_nodes()
    searcher.clock.advance(1.0)
    searcher.search.track_silent_nodes()
    searcher.clock.advance(RETURN_TIME - 0.5)
    searcher.search.track_silent_nodes()
    assert searcher.search.count_silent() == (True, 1)
    searcher.clock.advance(0.5)
    assert searcher.search.count_silent() == (False, 1)
    searcher.clock.advance(PEER_EXPIRY)
    assert searcher.search.count_silent() == (False, 0)


def test_a_search_updates_the_silent_nodes_at_once() -> None:
    searcher = Searcher(Messenger({}))
    searcher.search.track_silent_nodes()
    searcher.clock.advance(1.0)
    searcher.messenger.silent = ("x",)
    assert searcher.search.count_silent() == (True, 1)
    searcher.messenger.silent = ()
    # Clients that come together share one update.
    assert searcher.search.count_silent() == (True, 1)
    searcher.clock.advance(BATCH_DELAY)
    assert searcher.search.count_silent() == (False, 0)


def test_a_node_silent_before_the_start_is_awaited_and_not_counted() -> None:
    searcher = Searcher(Messenger({}, silent=("x",)))
    searcher.clock.advance(1.0)
    assert searcher.search.count_silent() == (True, 0)
    searcher.clock.advance(RETURN_TIME)
    assert searcher.search.count_silent() == (False, 0)
