"""Owners that answer offers later."""

from __future__ import annotations

from broker.transport.view import LinkState
from tests.transport.monitor.core_pair import CorePair, Owner


def test_ends_are_connected_at_the_same_time_after_a_delayed_answer() -> None:
    owners = Owner("a"), Owner("b")
    pair = CorePair(owners=owners)
    # The other end is not ready, so its offers get no answer.
    owners[0].answers = owners[1].answers = False
    pair.connect()
    pair.run(1.3)
    owners[1].answers = True
    pair.run(0.06)
    assert owners[1].calls[-1] == "offer"
    owners[0].answers = True
    pair.run(0.1)
    assert pair.one.core.status is pair.other.core.status is LinkState.CONNECTED
