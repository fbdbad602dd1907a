"""The tree of a message, from the views of all sites."""

from __future__ import annotations

from random import Random

import pytest

from broker.errors import ProtocolError
from broker.transport.multicast.route import INNER_DEGREE, ROOT_DEGREE, build_tree, split_route
from broker.transport.multicast.wire import Route
from tests.seeds import seeds

TEN = "abcdefghij"


def all_linked(names: str) -> dict[str, str]:
    return dict.fromkeys(names, names)


def edges(root: str, routes: dict[str, Route]) -> list[tuple[str, str]]:
    found = [(root, name) for name in routes]
    for name, route in routes.items():
        parts = dict(split_route(route))
        found += edges(name, parts)
    return found


def test_ten_sites_get_a_body_in_two_steps() -> None:
    routes = build_tree("a", TEN[1:], all_linked(TEN))
    assert list(routes) == ["b", "c"]
    assert routes["b"] == [("d", 0), ("f", 0), ("h", 0), ("j", 0)]
    assert routes["c"] == [("e", 0), ("g", 0), ("i", 0)]


def test_senders_prefer_different_sites() -> None:
    first = [list(build_tree(name, TEN.replace(name, ""), all_linked(TEN))) for name in TEN]
    assert first[0] == ["b", "c"]
    assert first[8] == ["j", "a"]
    assert first[9] == ["a", "b"]


@pytest.mark.parametrize("seed", seeds(50, 500))
def test_each_site_gets_a_body_once_over_links_that_both_ends_see(seed: int) -> None:
    random = Random(seed)
    names = [f"s{number}" for number in range(random.randrange(2, 32))]
    views = {name: random.sample(names, random.randrange(len(names))) for name in names}
    root, *others = names
    routes = build_tree(root, others, views)
    found = edges(root, routes)
    receivers = [receiver for _, receiver in found]
    assert len(receivers) == len(set(receivers))
    assert root not in receivers
    assert len(routes) == min(ROOT_DEGREE, len(others))
    for sender, receiver in found:
        if sender != root:
            assert receiver in views[sender]
            assert sender in views[receiver]
            assert sum(each == sender for each, _ in found) <= INNER_DEGREE


def test_a_route_that_ends_before_its_sites_is_wrong() -> None:
    with pytest.raises(ProtocolError, match="ends before"):
        list(split_route([("b", 2), ("c", 0)]))
