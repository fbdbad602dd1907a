"""Disagreements between nodes about the stacks of their streams."""

from __future__ import annotations

from collections.abc import Mapping

from broker.cluster.address import NETWORK, Address
from broker.cluster.messages import Value
from broker.cluster.stack_tables import CarriedBy, StackTables
from broker.cluster.tables.core import Tables
from broker.cluster.tables.table import TableKey

RADAR = {"asdi.>": ("two_parents", 1)}


class OneNode(Tables):
    """Tables of a node in which those of other nodes are set directly."""

    def __init__(self, others: Mapping[str, Mapping[str, Value]]) -> None:
        super().__init__(Address(("alps",), "a"), 1, lambda: [("origin", 1, 1)])
        self._others = others

    def items(self, kind: str):  # type: ignore[no-untyped-def]
        if kind != "stacks":
            return iter(())
        return iter([(TableKey(kind, name, name), table) for name, table in self._others.items()])


def disagreements(
    own: Mapping[str, CarriedBy],
    others: Mapping[str, Mapping[str, Value]],
    members: tuple[str, ...] = (),
) -> list[str]:
    return StackTables(OneNode(others), own).disagreements(members)


def test_nodes_with_the_same_stacks_agree() -> None:
    assert disagreements({}, {}, ("a", "b")) == []
    assert disagreements(RADAR, {"b": RADAR, "a": {}}, ("a", "b")) == []


def test_each_difference_names_pattern_node_and_both_stacks() -> None:
    others: Mapping[str, Mapping[str, Value]] = {"b": {"asdi.>": ("two_parents", 2)}, "c": {}}
    assert disagreements(RADAR, others, ("d",)) == [
        'streams."asdi.>": b has the stack two_parents 2, this node two_parents 1',
        'streams."asdi.>": c has the stack of the next wider pattern, this node two_parents 1',
        'streams."asdi.>": d has the stack of the next wider pattern, this node two_parents 1',
    ]
    assert disagreements({}, {"b": RADAR}) == [
        'streams."asdi.>": b has the stack two_parents 1, this node of the next wider pattern'
    ]


def test_malformed_entries_of_another_node_are_ignored() -> None:
    bad: Mapping[str, Value] = {"a.>": 7, "b.>": ("", 1), "c.>": ("x", -1), **RADAR}
    assert disagreements(RADAR, {"b": bad}) == []


def test_only_a_node_with_stacks_of_its_own_publishes_a_table() -> None:
    assert StackTables(OneNode({}), {}).publications() == []
    (publication,) = StackTables(OneNode({}), RADAR).publications()
    assert publication is not None
    assert (publication.subject, publication.scope) == ("a", NETWORK)
    assert publication.changes == RADAR
