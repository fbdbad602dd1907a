from __future__ import annotations

from zope.interface.verify import verifyObject

from broker.errors import PeerSilent
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Outcomes,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import ILayer, ILayerCore
from broker.transport.message import Message, Outcome
from broker.transport.multicast import MulticastLayer
from broker.transport.multicast.core import MulticastCore
from broker.transport.view import LinkState, View

SENT, FULL, ABSENT = Outcome.SENT, Outcome.FULL, Outcome.ABSENT
UP = View(LinkState.CONNECTED)
SUSPECTED = View(LinkState.SUSPECTED)
DOWN = View(LinkState.DISCONNECTED, error=PeerSilent("gone"))


def core_of(*peers: str) -> MulticastCore:
    core = MulticastCore()
    for peer in peers:
        assert core.view_changed(peer, UP, 0.0) == [ViewChanged(UP, peer)]
    return core


def send(core: MulticastCore, *peers: str, is_urgent: bool = False) -> dict[object, Outcome]:
    message = Message(b"m", destinations=peers, is_urgent=is_urgent)
    effects = core.submit([message], 0.0)
    sent = [peer for peer, outcome in message.outcomes.items() if outcome is SENT]
    assert effects == [*(SendDown([message], peer) for peer in sent), Outcomes([message])]
    return dict(message.outcomes)


def test_the_layer_and_its_core_keep_their_contracts() -> None:
    layer = MulticastLayer()
    assert verifyObject(ILayer, layer)
    assert verifyObject(ILayerCore, layer.create_core())


def test_a_peer_is_absent_before_and_after_its_connection() -> None:
    core = MulticastCore()
    assert send(core, "a") == {"a": ABSENT}
    core.view_changed("a", UP, 1.0)
    assert send(core, "a", "b") == {"a": SENT, "b": ABSENT}
    assert core.view_changed("a", SUSPECTED, 2.0) == [ViewChanged(SUSPECTED, "a")]
    assert send(core, "a") == {"a": SENT}
    assert core.view_changed("a", DOWN, 3.0) == [ViewChanged(DOWN, "a")]
    assert send(core, "a") == {"a": ABSENT}


def test_back_pressure_is_reported_for_present_peers_and_spares_urgent_messages() -> None:
    core = core_of("a", "b")
    assert core.writable_changed("a", False, 0.0) == [WritableChanged(False, "a")]
    assert send(core, "a", "b") == {"a": FULL, "b": SENT}
    assert send(core, "a", "b", is_urgent=True) == {"a": SENT, "b": SENT}
    core.view_changed("a", DOWN, 1.0)
    assert send(core, "a") == {"a": ABSENT}
    core.view_changed("a", UP, 2.0)
    core.writable_changed("a", True, 2.0)
    assert send(core, "a") == {"a": SENT}


def test_messages_to_one_peer_stay_one_batch() -> None:
    core = core_of("a", "b")
    one, other = Message(b"1", destinations=("a", "b")), Message(b"2", destinations=("b",))
    assert core.submit([one, other], 0.0) == [
        SendDown([one], "a"),
        SendDown([one, other], "b"),
        Outcomes([one, other]),
    ]


def test_a_removed_peer_leaves_nothing() -> None:
    core = core_of("a")
    core.writable_changed("a", False, 0.0)
    assert core.peer_removed("a", 1.0) == []
    assert send(core, "a") == {"a": ABSENT}
    core.view_changed("a", UP, 2.0)
    assert send(core, "a") == {"a": SENT}
    core.peer_removed("never seen", 3.0)


def test_messages_and_credit_pass() -> None:
    core = core_of("a")
    message = Message(b"m", source="a")
    assert core.receive([message], "a", 0.0) == [DeliverUp([message], "a")]
    assert core.consumed("a", 3, 0.0) == [Consumed(3, "a")]
