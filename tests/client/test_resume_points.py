"""Resume points of durable subscriptions, from one process to the next."""

from __future__ import annotations

from broker.client.core import ClientCore
from broker.client.effects import Effect, ResumePoint, SavePositions
from broker.client.outbox import Outbox
from broker.client.received import STORED
from broker.wire.messages import Subscribe, Subscribed, Unsubscribe
from tests.client.node_messages import (
    WINDOW,
    at,
    flowing_core,
    process_items,
    receive,
    sent,
    subscribe,
)
from tests.client.test_subscription_state import (
    deliver,
    flowing_at,
    position_of,
    resubscribe,
    wire,
)


def new_process(**left: ResumePoint) -> ClientCore:
    core = ClientCore(Outbox(100, 100_000), WINDOW, left)
    core.session_up(False, "c/new")
    return core


def saved_points(effects: list[Effect]) -> dict[str, ResumePoint]:
    (keep,) = [effect for effect in effects if isinstance(effect, SavePositions)]
    return dict(keep.resume_points)


def test_a_durable_position_is_saved_with_its_node() -> None:
    core = new_process(other=ResumePoint(at(3), "c/old"))
    subscribe(core, STORED, "d")
    receive(core, Subscribed(1, None, ()), flowing_at(n=10))
    process_items(core, receive(core, deliver(("n", 11))), now=1.0)
    effects = core.handle_timeout(2.0)
    assert saved_points(effects) == {
        "other": ResumePoint(at(3), "c/old"),
        "d": ResumePoint(position_of(n=11), "c/new"),
    }
    assert core.next_timeout() is None


def test_it_is_saved_without_a_connection_too() -> None:
    core = new_process()
    subscribe(core, STORED, "d")
    effects = receive(core, Subscribed(1, None, ()), flowing_at(n=10), deliver(("n", 11)))
    core.session_down()
    process_items(core, effects, now=1.0)
    assert saved_points(core.handle_timeout(2.0)) == {"d": ResumePoint(position_of(n=11), "c/new")}
    assert saved_points(core.positions.save_positions()) == {
        "d": ResumePoint(position_of(n=11), "c/new")
    }


def test_the_next_process_resumes_at_the_further_position() -> None:
    core = new_process(d=ResumePoint(position_of(n=7, m=2), "c/old"))
    (asked,) = sent(subscribe(core, STORED, "d"))
    assert isinstance(asked, Subscribe)
    assert (asked.start, asked.previous_address) == ("stored", "c/old")
    assert asked.position == wire(n=7, m=2)
    receive(core, Subscribed(1, position_of(n=5, m=4).to_wire(), ()))
    assert core.position_of(1) == position_of(n=7, m=4)


def test_the_saved_position_counts_if_the_node_has_none() -> None:
    core = new_process(d=ResumePoint(position_of(n=7), "c/old"))
    subscribe(core, STORED, "d")
    receive(core, Subscribed(1, None, ()), flowing_at(n=20))
    assert core.position_of(1) == position_of(n=7) and resubscribe(core).position == (("n", 1, 7),)


def test_a_deleted_subscription_is_not_saved() -> None:
    core = flowing_core(durable="d")
    process_items(core, receive(core, deliver(("n", 11))))
    effects = core.unsubscribe(1, forget=True)
    assert saved_points(effects) == {} and sent(effects)[-1] == Unsubscribe(1, True)
