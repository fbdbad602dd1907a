"""What is said of a node's tables in its name: by a liar, or by another node of its name."""

from __future__ import annotations

from broker.cluster.messages import ANEW, Update
from tests.cluster.tables.network import Network

C = ("c",)


def test_a_lie_about_an_incarnation_does_not_put_the_author_out_of_the_network() -> None:
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
    lie = Update("a", C, C, 1 << 62, 0, 1, 0, (("profile", "a", ANEW, (("y", 1),)),), False)
    # As any member can say it.
    network.nodes["b"].apply(network.nodes["b"].tables.received("liar", lie, network.now))
    network.cut("b", "liar")
    # Raises ProtocolError at b: which gives up its link to the honest a, again and again.
    network.run(60.0)
    from broker.cluster.tables.table import TableKey

    assert dict(network.nodes["b"].tables.get(TableKey("profile", "a", "a"))) == {"x": 1}


def test_two_nodes_of_one_name_do_not_flood_the_network() -> None:
    network = Network(1)
    network.add("b", ("b",))
    network.add("x", ("one",))
    network.link("x", "b")
    network.run(1.0)
    first = network.nodes["x"]
    first.apply(first.tables.publish("summary", "one", (), {"x": 1}, network.now)[1])
    network.run(1.0)
    # The other one, behind d; the world knows nodes by name, so that it is fed by hand.
    from broker.cluster.address import Address
    from broker.cluster.tables.core import Tables
    from broker.cluster.tables.effects import Send

    second = Tables(Address(("two",), "x"), 2, lambda: ("o2", 1, 1))
    second.neighbour_up("b2", ("b",), network.now)
    first_tables = Tables(Address(("one",), "x"), 1, lambda: ("o1", 1, 1))
    b = Tables(Address(("b",), "b"), 1, lambda: ("ob", 1, 1))
    now = 0.0
    queue = []
    sent = 0

    # "x1" and "x2" are how b knows them: two links, one author name in the tables.
    def put(frm, effects):
        for e in effects:
            if isinstance(e, Send):
                queue.append((frm, e.neighbour, e.message))

    who = {"x1": first_tables, "x2": Tables(Address(("two",), "x"), 2, lambda: ("o2", 1, 1))}
    for n, t in who.items():
        put(n, t.neighbour_up("b", ("b",), now))
        put("b", b.neighbour_up(n, t.address.unit, now))
        put(n, t.publish("summary", t.address.unit[0], (), {"w": 1}, now)[1])
    while queue and sent < 2000:
        frm, to, message = queue.pop(0)
        sent += 1
        if to == "b":
            put("b", b.received(frm, message, now))
        else:
            put(to, who[to].received("b", message, now))
    assert sent < 2000, "an endless exchange, with no time passing"
