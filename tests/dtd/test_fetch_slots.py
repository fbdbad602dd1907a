"""Bounds of fetches of DTDs, for each account and in total."""

from __future__ import annotations

from collections import Counter

import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.dtd.cache import CacheLimits, DtdCache
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.fetch_slots import (
    MAX_FETCHES,
    MAX_FETCHES_OF_OWNER,
    MAX_WAITING_OF_OWNER,
    FetchSlots,
)
from broker.dtd.reference import DtdReference
from broker.errors import Overloaded, UnknownType
from broker.limit_registry import LimitRegistry
from tests.dtd.test_cache import CATALOGUE, FLIGHT_1_0, ScriptedSource


def test_an_owner_runs_its_share_at_a_time_and_the_others_go_on() -> None:
    slots = FetchSlots()
    bad = [slots.acquire("bad") for _ in range(20)]
    assert [each.called for each in bad] == [n < MAX_FETCHES_OF_OWNER for n in range(20)]
    assert slots.acquire("good").called
    slots.release("bad")
    assert sum([each.called for each in bad]) == MAX_FETCHES_OF_OWNER + 1


def test_owners_have_turns_when_all_slots_are_used() -> None:
    slots = FetchSlots()
    for number in range(MAX_FETCHES // MAX_FETCHES_OF_OWNER):
        for _ in range(MAX_FETCHES_OF_OWNER):
            assert slots.acquire(f"owner {number}").called
    turns: list[str] = []

    def wait(owner: str) -> None:
        slots.acquire(owner).addCallback(lambda _: turns.append(owner))

    for owner in ("bad", "bad", "bad", "good"):
        wait(owner)
    for _ in range(4):
        slots.release("owner 0")
    assert turns == ["bad", "good", "bad", "bad"]


def test_a_full_queue_refuses_its_owner_only() -> None:
    limits = LimitRegistry()
    slots = FetchSlots(limits)
    for _ in range(MAX_FETCHES_OF_OWNER + MAX_WAITING_OF_OWNER):
        slots.acquire("bad")
    with pytest.raises(Overloaded):
        slots.acquire("bad")
    assert slots.acquire("good").called
    reached = {each.name: each.reached for each in limits}
    assert reached["dtd-fetches-waiting"] == 1
    for _ in range(MAX_FETCHES_OF_OWNER + MAX_WAITING_OF_OWNER):
        slots.release("bad")
    slots.release("good")
    assert {each.name: each.find_used() for each in limits} == dict.fromkeys(reached, 0)


def test_a_batch_of_many_types_fetches_a_few_at_a_time() -> None:
    source = ScriptedSource()
    cache = DtdCache(CATALOGUE, (source,), CacheLimits(), Clock())
    outcomes: Counter[str] = Counter()

    def look_up(name: str, owner: str) -> None:
        def count(failure: Failure) -> None:
            outcomes[type(failure.value).__name__] += 1

        found = cache.lookup(DtdReference(name, "1.0"), FetchHint("p", owner=owner))
        found.addErrback(count)

    for number in range(537):
        look_up(f"odd{number}", "bad")
    assert len(source.pending) == MAX_FETCHES_OF_OWNER
    look_up("fine", "good")
    assert source.asked[-1][0].type == "fine"
    # A type of the catalogue needs no slot.
    assert cache.lookup(FLIGHT_1_0, FetchHint()).called
    while source.pending:
        source.pending.pop(0).errback(UnknownType("not there"))
    refused = 537 - MAX_FETCHES_OF_OWNER - MAX_WAITING_OF_OWNER
    assert outcomes == {"Overloaded": refused, "UnknownType": 537 - refused + 1}
    # `Overloaded` is no property of the type: it may be fetched at once.
    look_up("odd536", "bad")
    assert source.asked[-1][0].type == "odd536"
