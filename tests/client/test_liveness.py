"""The effective liveness of an event follows from the cut of its session (A16)."""

from __future__ import annotations

from broker.client.effects import Effect, EventBatch
from broker.wire.messages import Subscribed
from tests.client.node_messages import items_for, receive
from tests.client.test_subscription_state import begun, flows, says


def liveness_of(effects: list[Effect]) -> dict[tuple[str, int], str]:
    """By origin and offset, as the user is told."""
    portions = [item for item in items_for(effects) if isinstance(item, EventBatch)]
    return {
        (event.place.origin, event.place.offset): event.liveness.value
        for portion in portions
        for event in portion.events
    }


def test_what_was_published_before_it_flows_is_recovered_whenever_it_came() -> None:
    """The node got it late, from a node that was cut off, say, and sent it live."""
    core = begun(n=10, m=10)
    core.session_down()
    core.session_up(False)
    receive(core, Subscribed(1, None, ()), says(("m", 12)))
    told = receive(core, flows(n=12, m=14), says(("m", 13), ("n", 22), previous=("m", 12)))
    told += receive(core, says(("m", 14), ("m", 15), ("n", 24), previous=("n", 22)))
    assert liveness_of(told) == {
        ("m", 12): "recovery",
        ("m", 13): "recovery",
        ("n", 22): "live",
        ("m", 14): "recovery",
        ("m", 15): "live",
        ("n", 24): "live",
    }


def test_the_node_of_a_later_session_may_know_less_of_an_origin() -> None:
    """Chaos 121: that node was cut off from the origin, and named an earlier cut."""
    core = begun(n=10)
    core.session_down()
    core.session_up(False)
    receive(core, Subscribed(1, None, ()), flows(n=4))
    told = receive(core, says(("n", 9), ("n", 10), ("n", 11)))
    assert liveness_of(told) == {("n", 9): "recovery", ("n", 10): "recovery", ("n", 11): "live"}
