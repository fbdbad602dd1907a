"""Who does not know where it was is found in clusters far away, too (P11)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.cluster.address import Address
from broker.cluster.traffic.messages import RoutedMessage
from broker.event.envelope import Liveness
from broker.recovery.durable_handover import GIVE_UP_AFTER
from broker.recovery.durable_search import (
    ALONE_LEARNING_TIME,
    BATCH_DELAY,
    LEARNING_TIME,
    RETURN_TIME,
)
from broker.recovery.messages import DurablesFound, FindDurables
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.test_roaming import Roaming
from tests.simulation.network.watching import INTERESTS, Publisher, Reader

SEEDS = seeds(1, 3)
NODES = ("a1", "a2", "a3", "b1", "c1", "c2", "d1")


class Wide(Roaming):
    """Two units of two clusters each; the client was at `a3`, and remembers nothing."""

    def __init__(self, seed: int, at: str = "a3") -> None:
        self.world = world = NetworkWorld(seed)
        world.add("a1", "alps.a")
        world.add("a2", "alps.a", join=["a1"])
        world.add("a3", "alps.a", join=["a1"])
        world.add("b1", "alps.b", gateways=["a1"])
        world.add("c1", "sea.c", gateways=["a2"])
        world.add("c2", "sea.c", join=["c1"])
        world.add("d1", "sea.d", gateways=["c1"])
        world.run(6.0)
        self.publishers = [
            Publisher(world, world.client("p-a", "a1")),
            Publisher(world, world.client("p-d", "d1")),
        ]
        self.readers = []
        self.incarnation = 0
        self.come(at)
        world.run(3.0)
        assert self.readers[0].flowing

    def all_but_a2_go(self) -> None:
        """Of its cluster, for so long that nobody tells of them any more; it has just begun."""
        for name in ("a1", "a2", "a3"):
            self.world.kill(name)
        self.world.run(40.0)
        self.world.start("a2")
        self.world.run_until(lambda: self.world.are_linked("a2", "c1"))


def seeks(world: NetworkWorld) -> list[FindDurables]:
    """All that are said from now on."""
    said: list[FindDurables] = []
    for name in NODES:
        handing = world[name].recovery.handover
        assert handing is not None
        _overhear(handing._search._messenger.send, handing._search._messenger, said)
    return said


def _overhear(say: Callable[[RoutedMessage], None], post: object, said: list[FindDurables]) -> None:
    def overheard(message: RoutedMessage) -> None:
        if isinstance(message, FindDurables):
            said.append(message)
        say(message)

    post.send = overheard  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("at", "then"), [("a3", "b1"), ("a3", "d1"), ("b1", "c2"), ("d1", "a2")])
def test_a_process_that_knows_nothing_goes_on_where_the_last_one_was(
    seed: int, at: str, then: str
) -> None:
    it = Wide(seed, at)
    it.publish(5)
    it.leave()
    it.publish(5)
    back = it.come(then)
    it.publish(5)
    it.check()
    assert len([event for event in back.events if event.liveness is Liveness.RECOVERY]) >= 10
    it.world.run(5.0)
    assert it.world[at].durables.get("rover", "d") is None
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_is_found_to_have_it_itself_goes_on(seed: int) -> None:
    """Another one names it, since the client went from there to here."""
    it = Wide(seed)
    it.publish(5)
    it.leave()
    it.publish(5)
    it.world.kill_client(it.come("d1").client)
    it.come("d1")
    it.world.run(5.0)
    it.world.kill_client(it.readers[-1].client)
    assert it.world["a3"].durables.get("rover", "d") is not None
    it.come("d1")
    it.publish(5)
    it.check(once=False)
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_its_client_has_left_asks_no_further(seed: int) -> None:
    """It would take the subscription away from where its client went, and end the session there."""
    it = Wide(seed)
    it.publish(5)
    it.leave()
    it.publish(5)
    it.world.cut("a2", "c1", refuse=True)
    it.world.run(5.0)
    back = it.come("c2", "a1")
    it.world.run(5.0)
    assert back.subscription is None
    it.world.network.refuse(it.world.client_address("c2", "rover"))
    it.world.cut_client("rover", ["c2"])
    it.world.run(10.0)
    assert back.flowing
    it.world.heal("a2", "c1")
    it.world.run(20.0)
    it.publish(5)
    it.check()
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_node_is_asked_once_for_all_who_come_together(seed: int) -> None:
    it = Wide(seed)
    said = seeks(it.world)
    readers = []
    for number in range(30):
        client = it.world.client(f"new{number}", "d1")
        readers.append(Reader(it.world, client, INTERESTS[1], durable="d"))
    it.world.run_until(lambda: all(reader.flowing for reader in readers))
    asked = [each.target.node for each in said]
    # Some sessions may begin later than the others.
    assert len(asked) in (len(NODES) - 1, 2 * (len(NODES) - 1))
    assert set(asked) == set(NODES) - {"d1"}
    assert max(len(each.keys) for each in said) > 10
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_may_have_it_and_is_silent_is_waited_for(seed: int) -> None:
    it = Wide(seed)
    it.publish(5)
    it.leave()
    it.publish(5)
    it.world.kill("a3")
    back = it.come("d1")
    it.world.run(15.0)
    assert back.subscription is None and back.error is None
    assert it.world["d1"].durables.get("rover", "d") is None
    it.world.start("a3")
    it.world.run(15.0)
    it.publish(5)
    it.check()
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("node", ["b1", "a1"], ids=["told of others", "was linked to others"])
def test_a_node_that_is_cut_off_takes_nobody_for_new(seed: int, node: str) -> None:
    it = Wide(seed)
    it.publish(5)
    it.leave()
    it.publish(5)
    it.world.run(2.0)
    others = [other for other in NODES if other != node]
    for other in others:
        it.world.cut(node, other, refuse=True)
    it.world.kill(node)
    it.world.start(node)
    back = it.come(node)
    it.world.run(20.0)
    assert back.subscription is None and back.error is None
    for other in others:
        it.world.heal(node, other)
    it.world.run(20.0)
    it.publish(5)
    it.check()
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("away", [5.0, 40.0])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_half_of_the_network_that_is_on_no_map_may_have_it(
    seed: int, away: float, restarted: bool
) -> None:
    """The node where the client comes has links, to nodes that know no more than it does."""
    it = Wide(seed)
    it.publish(5)
    it.leave()
    it.publish(5)
    it.world.cut("a2", "c1", refuse=True)
    it.world.run(away)
    if restarted:
        it.world.kill("c2")
        it.world.start("c2")
        it.world.run(LEARNING_TIME + 2.0)
    back = it.come("c2")
    it.world.run(10.0)
    assert back.subscription is None and back.error is None
    it.world.heal("a2", "c1")
    it.world.run(20.0)
    it.publish(5)
    it.check()
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("restarted", [False, True])
def test_nodes_that_were_silent_for_long_are_told_and_not_waited_for(
    seed: int, restarted: bool
) -> None:
    """A node that begins after they fell silent tells nobody: it would do so for ever."""
    it = Wide(seed)
    it.world.cut("a2", "c1", refuse=True)
    it.world.run(5.0)
    if restarted:
        it.world.kill("c2")
        it.world.start("c2")
    it.world.run(RETURN_TIME + 40.0)
    new = Reader(it.world, it.world.client("new", "c2"), INTERESTS[1], durable="d")
    it.world.run(10.0)
    assert new.flowing and new.subscription is not None
    if restarted:
        assert not new.subscription.warnings
    else:
        (warning,) = new.subscription.warnings
        assert "starts as a new subscription" in warning and "4 other origins" in warning
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("node", ["d1", "a2"], ids=["asked by another cluster", "asked itself"])
def test_who_has_lost_sight_of_its_cluster_does_not_speak_for_it(seed: int, node: str) -> None:
    """It has come back when the others were gone for so long that nobody told of them."""
    it = Wide(seed, "a1")
    it.publish(5)
    it.leave()
    it.publish(5)
    it.all_but_a2_go()
    it.world.run(LEARNING_TIME)
    back = it.come(node)
    it.world.run(15.0)
    assert back.subscription is None and back.error is None
    for name in ("a1", "a3"):
        it.world.start(name)
    it.world.run(15.0)
    it.publish(5)
    it.check()
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_who_is_alone_for_long_is_the_whole_cluster(seed: int) -> None:
    it = Wide(seed)
    it.all_but_a2_go()
    it.world.run(ALONE_LEARNING_TIME)
    new = Reader(it.world, it.world.client("new", "d1"), INTERESTS[1], durable="d")
    it.world.run(10.0)
    assert new.flowing
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_where_nobody_can_be_asked_the_client_is_warned(seed: int) -> None:
    it = Wide(seed)
    for other in NODES[:-1]:
        it.world.cut("d1", other, refuse=True)
    it.world.run(2.0)
    client = it.world.client("lonely", "d1")
    reader = Reader(it.world, client, INTERESTS[1], durable="d")
    it.world.run(GIVE_UP_AFTER - 5.0)
    assert reader.subscription is None
    it.world.run(10.0)
    assert reader.flowing and reader.subscription is not None
    (warning,) = reader.subscription.warnings
    assert "starts as a new subscription" in warning and "no link" in warning
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_node_that_has_just_begun_does_not_say_that_it_has_asked_all(seed: int) -> None:
    it = Wide(seed)
    it.world.kill("c1")
    it.world.start("c1")
    handing = it.world["c1"].recovery.handover
    assert handing is not None
    said: list[RoutedMessage] = []
    handing._search._messenger.send = said.append  # type: ignore[method-assign]
    asker, asked = Address(("alps", "a"), "a2"), Address(("sea", "c"), "c1")
    seek = FindDurables(asked, asker, 9, 1, (("nobody", "d"),), ("sea", "c"), 1_000)
    it.world.run(1.0)
    handing._search._receive_question(seek)
    (answer,) = said
    assert isinstance(answer, DurablesFound) and not answer.is_complete
    it.world.run(LEARNING_TIME)
    handing._search._receive_question(seek)
    assert isinstance(said[1], FindDurables) and said[1].target.node == "c2"
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_who_asks_for_a_unit_that_the_node_is_not_in_is_not_answered_for_it(seed: int) -> None:
    """Two nodes may not agree on where one of them is."""
    it = Wide(seed)
    handing = it.world["d1"].recovery.handover
    assert handing is not None
    seeking = handing._search
    address = it.world["c2"].recovery.handover._search._messenger.own_address  # type: ignore[union-attr]
    asked = seeking._send_question(address, ("alps",), [("rover", "d")], 1_000)
    answers: list[object] = []
    asked.addCallback(answers.append)
    it.world.run(0.5 + BATCH_DELAY)
    (answer,) = answers
    assert (answer.found, answer.is_complete) == ((), False)  # type: ignore[attr-defined]
    it.world.close()
