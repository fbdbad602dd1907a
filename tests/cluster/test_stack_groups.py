"""Groups of nodes that alone carry a stream, as other nodes learn of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.cluster import stack_groups
from broker.cluster.address import Address
from broker.cluster.messages import Value
from broker.cluster.stack_groups import GROUPS, STACKS, StackGroups
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import TableChanged
from broker.cluster.tables.table import TableKey
from broker.event.stream import StreamPattern


class OneNode(Tables):
    """Tables of a node, with those of other nodes set directly by kind and author."""

    def __init__(self, others: Mapping[str, Mapping[str, Mapping[str, Value]]]) -> None:
        super().__init__(Address(("alps",), "n"), 1, lambda: [("origin", 1, 1)])
        self.others = others

    def items(self, kind: str):  # type: ignore[no-untyped-def]
        tables = self.others.get(kind, {})
        return iter([(TableKey(kind, name, name), table) for name, table in tables.items()])


OTHERS: Mapping[str, Mapping[str, Mapping[str, Value]]] = {
    GROUPS: {"a": {"chat.>": ("a", "b"), "bad": 7, ">>": ("a",), "empty": ()}},
    STACKS: {"a": {"chat.>": ("rcm", 1), "chat.public.>": ("mspaces", 1)}},
}


@pytest.mark.parametrize(
    ("pattern", "sites"),
    [
        ("chat.ops", ("a", "b")),
        ("chat.>", ("a", "b")),
        ("chat.public.x", ()),
        ("bad", ()),
        ("empty", ()),
        ("chat", ()),
        # Other streams match too.
        (">", ()),
    ],
)
def test_streams_of_a_group_are_found(pattern: str, sites: tuple[str, ...]) -> None:
    groups = StackGroups(OneNode(OTHERS), {})
    assert groups.find_sites(StreamPattern.parse(pattern)) == sites


def test_a_site_carries_the_streams_of_its_group() -> None:
    groups = StackGroups(OneNode(OTHERS), {"chat.>": ("a", "n")})
    assert groups.find_sites(StreamPattern.parse("chat.ops")) == ()
    publication = groups.publication()
    assert publication is not None and publication.changes == {"chat.>": ("a", "n")}


def test_a_change_of_the_tables_counts_at_once() -> None:
    tables = OneNode({})
    groups = StackGroups(tables, {})
    assert groups.find_sites(StreamPattern.parse("chat.ops")) == ()
    before, tables.others = groups.version, OTHERS
    groups.apply_change(TableChanged(TableKey(GROUPS, "a", "a"), (), {}, is_removed=False))
    assert groups.find_sites(StreamPattern.parse("chat.ops")) == ("a", "b")
    assert groups.version != before


def test_a_group_is_known_while_its_nodes_are_away_and_not_when_they_return_without_it() -> None:
    tables = OneNode(OTHERS)
    groups = StackGroups(tables, {})
    tables.others = {}
    for kind in (GROUPS, STACKS):
        groups.apply_change(TableChanged(TableKey(kind, "a", "a"), (), {}, is_removed=True))
    assert groups.find_sites(StreamPattern.parse("chat.ops")) == ("a", "b")
    # Another table of the node.
    groups.apply_change(TableChanged(TableKey("types", "b", "b"), (), {}, is_removed=False))
    assert groups.find_sites(StreamPattern.parse("chat.ops")) == ("a", "b")
    groups.apply_change(TableChanged(TableKey("types", "a", "a"), (), {}, is_removed=False))
    assert groups.find_sites(StreamPattern.parse("chat.ops")) == ()


def test_the_oldest_of_too_many_nodes_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_groups, "MAX_NODES", 2)
    tables = {name: {f"{name}.>": (name,)} for name in ("a", "b", "c")}
    groups = StackGroups(OneNode({GROUPS: tables}), {})
    found = [groups.find_sites(StreamPattern.parse(f"{name}.x")) for name in tables]
    assert found == [(), ("b",), ("c",)]
