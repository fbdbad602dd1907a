from __future__ import annotations

from typing import Any

from broker.cluster.address import Address
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.interest.effects import InterestRemoved
from broker.cluster.interest.expiring_interest import INTEREST_EXPIRY
from broker.cluster.messages import REPLACED, Update
from broker.cluster.network_state import NetworkState


def update(number: int, incarnation: int, *tables: Any) -> Update:
    return Update("far", ("b",), (), incarnation, 0, number, 0, tables, False)


def test_interest_expires_from_the_last_disappearance_of_its_author() -> None:
    node = NodeDescriptor(Address(("a",), "n"), "0" * 16, 1, (1,))
    state = NetworkState(node, lambda: [("0" * 16, 1, 0)])
    state.publish_descriptor(node, 0.0)
    far = NodeDescriptor(Address(("b",), "far"), "1" * 16, 1, (1,))
    state.link_up(far, "tcp", 1, 2, 0.0)
    entries = ("summary", "b", REPLACED, (("w", (">", "true()", ())),))
    state.receive_message("far", update(1, 1, entries), 0.0)
    state.receive_message("far", update(2, 1), 0.0)  # disappeared
    state.receive_message("far", update(1, 2, entries), 5.0)  # announced again by a later process
    state.receive_message("far", update(2, 2), INTEREST_EXPIRY - 1.0)  # disappeared again
    effects: list[InterestRemoved] = []
    now = INTEREST_EXPIRY - 1.0
    while now < 2 * INTEREST_EXPIRY - 2.0:
        effects += [e for e in state.handle_timeout(now) if isinstance(e, InterestRemoved)]
        now += 0.5
    assert effects == []
