"""Query classes for multicast: who wants the same shares a group, up to a cap (D55, X14)."""

from __future__ import annotations

from broker.content.query.query import parse_query
from broker.content.upstream.multicast import classes
from broker.content.upstream.union import Union
from broker.content.upstream.want import Want
from broker.event.stream import StreamPattern


def _sent(*texts: str) -> frozenset[Want]:
    union = Union()
    for text in texts:
        union.add(text, StreamPattern.parse(">"), parse_query(text))
    return union.sent


LINKS = {
    1: _sent("//a", "//a > 5"),
    2: _sent("//a > 7", "//a"),
    3: _sent("//a", "//b"),
    4: _sent("//b", "//b[c]", "//a"),
    5: _sent("//a"),
    6: _sent("//c"),
    7: frozenset[Want](),
}


def test_links_whose_unions_are_equal_share_a_group() -> None:
    found = classes(LINKS, 10)
    assert found.groups == (frozenset({1, 2, 5}), frozenset({3, 4}))
    assert found.unicast == {6}


def test_beyond_the_cap_the_smaller_groups_are_served_one_by_one() -> None:
    assert classes(LINKS, 1).groups == (frozenset({1, 2, 5}),)
    assert classes(LINKS, 1).unicast == {3, 4, 6}
    assert classes(LINKS, 0).groups == () and classes(LINKS, 0).unicast == {1, 2, 3, 4, 5, 6}


def test_the_order_of_the_links_does_not_matter() -> None:
    assert classes(dict(reversed(LINKS.items())), 2) == classes(LINKS, 2)
