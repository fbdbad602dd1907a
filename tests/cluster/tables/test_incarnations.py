from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from broker.cluster.address import Address
from broker.cluster.messages import REPLACED, Message, Update
from broker.cluster.tables.core import Tables
from broker.cluster.tables.effects import Send, TablesEffect
from broker.cluster.tables.table import TableKey
from tests.cluster.tables.network import Network

C = ("c",)


def test_a_false_incarnation_does_not_exclude_the_author() -> None:
    network = Network(1)
    for name in ("a", "b", "liar"):
        network.add(name, C)
    network.link("a", "b")
    network.link("b", "liar")
    network.run(1.0)
    network.nodes["a"].apply(
        network.nodes["a"].tables.publish("profile", "a", C, {"x": 1}, network.now)[1]
    )
    network.run(1.0)
    lie = Update("a", C, C, 1 << 62, 0, 1, 0, (("profile", "a", REPLACED, (("y", 1),)),), False)
    # Any member can send this.
    network.nodes["b"].apply(network.nodes["b"].tables.receive_message("liar", lie, network.now))
    network.cut("b", "liar")
    # The author does not exceed it: others would reject that and close its links.
    network.run(60.0)
    assert dict(network.nodes["b"].tables.get(TableKey("profile", "a", "a"))) == {"x": 1}


def test_two_nodes_of_one_name_do_not_flood_the_network() -> None:
    b = Tables(Address(("b",), "b"), 1, lambda: [("ob", 1, 1)])
    # Both are named x; b has a link to each.
    both = {
        "link-1": Tables(Address(("one",), "x"), 1, lambda: [("o1", 1, 1)]),
        "link-2": Tables(Address(("two",), "x"), 2, lambda: [("o2", 1, 1)]),
    }
    queue: deque[tuple[str, str, Message]] = deque()

    def put(sender: str, effects: Iterable[TablesEffect]) -> None:
        queue.extend((sender, e.neighbour, e.message) for e in effects if isinstance(e, Send))

    for link, tables in both.items():
        put(link, tables.add_neighbour("b", ("b",), 0.0))
        put("b", b.add_neighbour(link, tables.address.unit, 0.0))
        put(link, tables.publish("summary", tables.address.unit[0], (), {"w": 1}, 0.0)[1])
    passed = 0
    while queue and passed < 2000:
        sender, to, message = queue.popleft()
        passed += 1
        if to == "b":
            put("b", b.receive_message(sender, message, 0.0))
        else:
            put(to, both[to].receive_message("b", message, 0.0))
    # Each has raised its incarnation once, and waits.
    assert passed < 100
    assert [tables.counts["above"] for tables in both.values()] == [1, 1]
