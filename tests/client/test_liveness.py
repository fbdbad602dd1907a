"""Effective liveness of an event, from the cut of its session (A16)."""

from __future__ import annotations

from broker.client.effects import Effect, EventBatch
from broker.wire.messages import Subscribed
from tests.client.node_messages import items_for, receive
from tests.client.test_subscription_state import core_flowing_at, deliver, flowing_at


def liveness_of(effects: list[Effect]) -> dict[tuple[str, int], str]:
    portions = [item for item in items_for(effects) if isinstance(item, EventBatch)]
    return {
        (event.place.origin, event.place.offset): event.liveness.value
        for portion in portions
        for event in portion.events
    }


def test_events_published_before_the_flow_are_recovery_events() -> None:
    """The node received it late, for example from a node that was cut off, and sent it live."""
    core = core_flowing_at(n=10, m=10)
    core.session_down()
    core.session_up(False)
    receive(core, Subscribed(1, None, ()), deliver(("m", 12)))
    effects = receive(
        core, flowing_at(n=12, m=14), deliver(("m", 13), ("n", 22), previous=("m", 12))
    )
    effects += receive(core, deliver(("m", 14), ("m", 15), ("n", 24), previous=("n", 22)))
    assert liveness_of(effects) == {
        ("m", 12): "recovery",
        ("m", 13): "recovery",
        ("n", 22): "live",
        ("m", 14): "recovery",
        ("m", 15): "live",
        ("n", 24): "live",
    }


def test_a_later_session_may_have_an_earlier_cut_of_an_origin() -> None:
    """Chaos 121: that node was cut off from the origin."""
    core = core_flowing_at(n=10)
    core.session_down()
    core.session_up(False)
    receive(core, Subscribed(1, None, ()), flowing_at(n=4))
    effects = receive(core, deliver(("n", 9), ("n", 10), ("n", 11)))
    assert liveness_of(effects) == {("n", 9): "recovery", ("n", 10): "recovery", ("n", 11): "live"}
