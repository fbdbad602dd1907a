"""Interest of which the network knows all, nothing, or only what is behind a cut."""

from __future__ import annotations

from broker.cluster.local_interest import LocalInterest
from broker.cluster.start_position import END
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import parse_query

EVERYTHING = parse_query("true()")
MESH, NARROW, BOATS = map(StreamPattern.parse, ("asdi.>", "asdi.zny", "boats.>"))
FLOW = "0a/asdi.>"


def make(*keys: str) -> LocalInterest:
    """Return interest that only a transport has, by key."""
    interest = LocalInterest(lambda: 0)
    for key in keys:
        interest.add(key, NARROW, EVERYTHING, lambda marks: None, is_announced=False)
    return interest


def test_ranges_of_others_claim_nothing_while_a_transport_alone_has_interest() -> None:
    interest = make("one", "two")
    interest.add("boat", BOATS, EVERYTHING, lambda marks: None)
    assert interest.unclaimed_upto(FLOW) == END
    # Other flows, and the default one of the same origin, are as usual.
    assert interest.unclaimed_upto("0a/boats.>") == interest.unclaimed_upto("0a") == (0, 0)
    interest.remove("one")
    assert interest.unclaimed_upto(FLOW) == END
    interest.remove("two")
    assert interest.unclaimed_upto(FLOW) == (0, 0)


def test_interest_that_is_announced_later_counts_behind_its_cut() -> None:
    interest, cut = make("one", "two"), (3, 50)
    assert interest.announced() == [] and interest.announce_unannounced(BOATS) == []
    assert [key for key, *_ in interest.announce_unannounced(MESH)] == ["one", "two"]
    assert interest.is_announced("one") and len(interest.announced()) == 2
    interest.activate("one", {FLOW: cut})
    assert interest.unclaimed_upto(FLOW) == END
    interest.activate("two", {})
    assert interest.unclaimed_upto(FLOW) == cut


def test_only_announced_interest_waits_for_a_new_cluster() -> None:
    interest = make("one")
    active: list[Mark] = []
    interest.add("boat", BOATS, EVERYTHING, lambda marks: active.extend(marks.values()))
    interest.activate("one", {})
    interest.deactivate_announced()
    assert interest.is_reactivating
    interest.activate("boat", {FLOW: (1, 1)})
    assert not interest.is_reactivating and active == [(1, 1)]


def test_a_transport_activates_what_it_has_alone_once() -> None:
    interest = LocalInterest(lambda: 0)
    first = interest.add("key", MESH, EVERYTHING, lambda marks: None, is_announced=False)
    assert interest.is_waiting("key", first)
    second = interest.add("key", MESH, EVERYTHING, lambda marks: None, is_announced=False)
    assert not interest.is_waiting("key", first) and interest.is_waiting("key", second)
    interest.announce_unannounced(MESH)
    assert not interest.is_waiting("key", second)
