"""What a unit wants stays for a while when its leader is gone, each time anew."""

from __future__ import annotations

from typing import Any

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.interest.effects import Unwanted
from broker.cluster.messages import ANEW, Update
from broker.cluster.network_state import LINGER, Knowledge


def update(number: int, incarnation: int, *tables: Any) -> Update:
    return Update("far", ("b",), (), incarnation, 0, number, 0, tables, False)


def test_what_a_unit_wants_lingers_from_its_last_going_on() -> None:
    node = NodeDescriptor(Address(("a",), "n"), "0" * 16, 1, (1,))
    knowledge = Knowledge(node, lambda: ("0" * 16, 1, 0))
    knowledge.describe(node, 0.0)
    far = NodeDescriptor(Address(("b",), "far"), "1" * 16, 1, (1,))
    knowledge.link_up(far, "tcp", 1, 2, 0.0)
    said = ("summary", "b", ANEW, (("w", (">", "true()", ())),))
    knowledge.received("far", update(1, 1, said), 0.0)
    knowledge.received("far", update(2, 1), 0.0)  # gone
    knowledge.received("far", update(1, 2, said), 5.0)  # said again by a later process
    knowledge.received("far", update(2, 2), LINGER - 1.0)  # gone again
    effects: list[Unwanted] = []
    now = LINGER - 1.0
    while now < 2 * LINGER - 2.0:
        effects += [e for e in knowledge.handle_timeout(now) if isinstance(e, Unwanted)]
        now += 0.5
    assert effects == []
