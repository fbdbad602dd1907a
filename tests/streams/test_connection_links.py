"""Links of transports over connections: one for each pair of nodes, through all that happens."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

import attrs
import pytest
from zope.interface import implementer

from broker.config import Settings
from broker.config.faults import FaultSettings
from broker.errors import Overloaded
from broker.streams import connection_links
from broker.transport.effects import Effect, SendDown
from broker.transport.layer import ILayer, PassThrough, Property
from broker.transport.message import Message
from broker.transport.stacks import StackSettings
from plugins.mspaces.stack import MspacesStack
from tests.seeds import seeds
from tests.streams.link_ends import PORT, End, Wire, check_traffic, linked

SEEDS = seeds(5, 100)


def test_both_ends_name_each_other_by_the_listening_address() -> None:
    wire, ends, links = linked("b", "")
    check_traffic(wire, ends, links)
    assert wire.connections() == 1


def test_the_accepted_peer_has_its_name_again_after_a_reconnection() -> None:
    wire, ends, links = linked("b", "")
    for _ in range(3):
        wire.cut(*ends)
        # These wait in the link, and arrive once.
        links[0].send([b"early"], [ends[1].address])
        wire.run(6.0)
        assert (ends[0].address, b"early") in ends[1].received
        check_traffic(wire, ends, links)


def test_the_accepted_peer_has_its_name_again_after_a_restart() -> None:
    wire, ends, links = linked("b", "")
    for incarnation in (2, 3):
        links[0].close()
        ends[0] = End(wire, "a", incarnation=incarnation)
        links[0] = ends[0].open()
        links[0].add_peer(ends[1].address)
        wire.run(3.0)
        check_traffic(wire, ends, links)


@pytest.mark.parametrize("seed", SEEDS)
def test_nodes_that_dial_each_other_have_one_link(seed: int) -> None:
    wire, ends, links = linked("bc", "ac", "ab", seed=seed)
    check_traffic(wire, ends, links)
    assert wire.connections() == 3


@pytest.mark.parametrize("seed", SEEDS)
def test_links_come_back_after_any_cuts_and_restarts(seed: int) -> None:
    wire, ends, links = linked("bc", "ac", "ab", seed=seed)
    random = Random(seed)
    for incarnation in range(2, 8):
        one, other = random.sample(range(3), 2)
        wire.cut(ends[one], ends[other], refuse=random.random() < 0.5)
        if random.random() < 0.3:
            links[one].close()
            wire.run(random.choice((0.0, 3.0)))
            ends[one] = End(wire, "abc"[one], incarnation=incarnation)
            links[one] = ends[one].open()
            for each in ends:
                if each is not ends[one]:
                    links[one].add_peer(each.address)
        wire.run(random.uniform(0.0, 5.0))
        wire.heal(ends[one], ends[other])
    wire.ends[:] = ends
    wire.run(60.0)
    check_traffic(wire, ends, links)
    assert wire.connections() == 3


def test_a_peer_that_does_not_answer_is_dialled_until_it_is_there() -> None:
    wire = Wire()
    one, other = End(wire, "a"), End(wire, "b")
    links = one.open()
    links.add_peer(other.address)
    wire.run(100.0)
    late = other.open()
    wire.run(31.0)
    check_traffic(wire, [one, other], [links, late])


def test_a_removed_peer_is_not_dialled_any_more() -> None:
    wire, ends, links = linked("b", "")
    links[0].remove_peer(ends[1].address)
    wire.run(60.0)
    assert wire.connections() == 0
    links[0].send([b"late"], [ends[1].address])
    wire.run(1.0)
    assert links[0].dropped == 1
    assert ends[1].received == []


def test_a_peer_that_is_removed_while_it_is_dialled_gets_no_link() -> None:
    wire = Wire()
    one, other = End(wire, "a"), End(wire, "b")
    links, _ = one.open(), other.open()
    for wait in (0.0, 0.0005, 0.002, 0.004):
        peer = links.add_peer(other.address)
        wire.run(wait)
        links.remove_peer(peer)
        wire.run(5.0)
        assert wire.connections() == 0


def test_an_accepted_peer_can_be_added_and_removed() -> None:
    wire, ends, links = linked("b", "")
    links[1].add_peer(ends[0].address)
    wire.run(3.0)
    assert wire.connections() == 1
    check_traffic(wire, ends, links)
    links[0].remove_peer(ends[1].address)
    wire.run(3.0)
    check_traffic(wire, ends, links)


def test_closing_leaves_no_connection_and_no_timer() -> None:
    wire, _, links = linked("bc", "ac", "ab")
    links[0].add_peer(("10.0.0.99", PORT))
    wire.run(0.0005)
    for each in links:
        each.close()
    wire.run(0.1)
    assert wire.connections() == 0
    assert wire.clock.getDelayedCalls() == []


def test_closing_in_a_handshake_leaves_no_connection_and_no_timer() -> None:
    for wait in (0.0, 0.001, 0.002, 0.003, 0.004, 0.005):
        wire = Wire()
        one, other = End(wire, "a"), End(wire, "b")
        links = [one.open(), other.open()]
        links[0].add_peer(other.address)
        wire.run(wait)
        for each in links:
            each.close()
        wire.run(0.1)
        assert wire.connections() == 0
        assert wire.clock.getDelayedCalls() == []


def test_two_instances_share_a_port() -> None:
    wire = Wire()
    ends = [End(wire, "a"), End(wire, "b")]
    radar, boats = ([end.open(name) for end in ends] for name in ("radar", "boats"))
    for links in (radar, boats):
        links[0].add_peer(ends[1].address)
    wire.run(3.0)
    assert wire.connections() == 2
    check_traffic(wire, ends, radar)
    check_traffic(wire, ends, boats)
    radar[1].close()
    wire.run(3.0)
    check_traffic(wire, ends, boats)
    boats[1].close()
    assert ends[1].open() is not None


def test_a_node_that_connects_from_another_host_is_the_peer_that_was_added() -> None:
    """The node "b" listens at two addresses, and dials from the second."""
    wire = Wire()
    one, other = End(wire, "a"), End(wire, "b")
    links, _ = one.open(), other.open()
    second = End(wire, "b", host="10.0.1.1")
    from_second = second.open()
    from_second.add_peer(one.address)
    wire.run(3.0)
    from_second.send([b"first"], [one.address])
    wire.run(1.0)
    assert one.received == [(second.address, b"first")]
    one.received.clear()
    peer = links.add_peer(other.address)
    wire.run(30.0)
    from_second.send([b"second"], [one.address])
    wire.run(1.0)
    assert {each for each, _ in one.received} <= {peer}


def test_each_end_gets_the_states_of_a_link() -> None:
    wire, ends, links = linked("b", "")
    for end, other in (ends, ends[::-1]):
        assert end.states == [(other.address, "connected")]
        end.states.clear()
    wire.cut(*ends)
    wire.run(6.0)
    for end, other in (ends, ends[::-1]):
        assert end.states == [(other.address, "suspected"), (other.address, "connected")]
        end.states.clear()
    wire.cut(*ends, refuse=True)
    wire.run(60.0)
    for end, other in (ends, ends[::-1]):
        assert end.states == [(other.address, "suspected"), (other.address, "disconnected")]
        end.states.clear()
    wire.heal(*ends)
    wire.run(60.0)
    assert ends[0].states == [(ends[1].address, "connected")]
    links[0].remove_peer(ends[1].address)
    wire.run(6.0)
    links[1].close()
    assert ends[0].states == [(ends[1].address, "connected")]
    assert ends[1].states[-1] == (ends[0].address, "disconnected")


def test_peers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_links, "MOST_PEERS", 2)
    wire = Wire()
    ends = [End(wire, name) for name in "abcd"]
    links = [end.open() for end in ends]
    for each in links[1:]:
        each.add_peer(ends[0].address)
        wire.run(1.0)
    assert wire.connections() == 2
    refused = links[0].snapshot()["refused"]
    assert isinstance(refused, dict) and set(refused) == {"too-many-links"}
    links[3].add_peer(ends[1].address)
    with pytest.raises(Overloaded):
        links[3].add_peer(ends[2].address)


@pytest.mark.parametrize("spoiled", ["b", "c"])
def test_faults_of_the_configuration_are_on_the_links_to_their_nodes(spoiled: str) -> None:
    faulty = attrs.evolve(
        Settings(), faults=(FaultSettings(kind="discard", links=spoiled, rate=1.0),)
    )
    wire = Wire()
    ends = [End(wire, "a", settings=faulty), End(wire, "b")]
    links = [end.open() for end in ends]
    links[0].add_peer(ends[1].address)
    wire.run(3.0)
    links[0].send([b"message"], [ends[1].address])
    wire.run(1.0)
    assert len(ends[1].received) == (spoiled != "b")


def test_a_stack_with_a_layer_above_the_links_orders_all_messages() -> None:
    """The layer gets views of peers, and messages with several destinations."""
    wire = Wire()
    ends = [End(wire, name, link_stack=Stamping()) for name in "abc"]
    links = [end.open() for end in ends]
    for end in ends[1:]:
        links[0].add_peer(end.address)
    wire.run(3.0)
    links[0].send([b"x", b"y"], [end.address for end in ends[1:]])
    wire.run(1.0)
    for end in ends[1:]:
        assert end.received == [(ends[0].address, each) for each in (b"1 x", b"2 y")]


def test_a_node_that_has_moved_answers_at_its_new_address() -> None:
    wire, ends, links = linked("b", "")
    old = ends[1].address
    links[1].close()
    ends[1] = End(wire, "b", host="10.0.1.1", incarnation=2)
    links[1] = ends[1].open()
    wire.run(6.0)
    links[0].add_peer(ends[1].address)
    wire.run(6.0)
    check_traffic(wire, ends, links)
    links[0].send([b"late"], [old])
    wire.run(1.0)
    assert links[0].dropped == 1


def test_a_node_with_a_new_name_answers_at_an_added_address() -> None:
    wire, ends, links = linked("b", "")
    place = ends[1].address
    links[1].close()
    ends[1] = End(wire, "new", host=place[0])
    links[1] = ends[1].open()
    wire.run(10.0)
    check_traffic(wire, ends, links)
    assert links[0].snapshot()["peers"] == [
        {"address": f"{place[0]}:{PORT}", "node": "new", "linked": True}
    ]


class StampingCore(PassThrough):
    """Numbers the messages of this node."""

    def __init__(self) -> None:
        self.count = 0

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        for message in messages:
            self.count += 1
            message.push(b"%d " % self.count)
        return [SendDown(messages)]


@implementer(ILayer)
@attrs.frozen
class StampingLayer:
    name: ClassVar[str] = "stamping"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.SENDER_ORDER})
    provides: ClassVar[frozenset[Property]] = frozenset()
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> StampingCore:
        return StampingCore()


class Stamping(MspacesStack):
    """Socket, p2p, multicast, and a layer above it."""

    def layers(self, settings: StackSettings) -> list[ILayer]:
        return [*super().layers(settings), StampingLayer()]
