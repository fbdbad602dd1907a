"""Search for durable subscriptions in all clusters, for clients without a position (P11)."""

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
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from tests.seeds import further_cases, seeds
from tests.simulation.network.roaming import Roaming

SEEDS = seeds(1, 3)
NODES = ("a1", "a2", "a3", "b1", "c1", "c2", "d1")


class WideRoaming(Roaming):
    """The client was at `a3` and has no position."""

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
            Publisher(world.client("p-a", "a1")),
            Publisher(world.client("p-d", "d1")),
        ]
        self.readers = []
        self.incarnation = 0
        self.start_process(at)
        world.run(3.0)
        assert self.readers[0].is_flowing

    def restart_only_a2(self) -> None:
        """No table names the cluster any more."""
        for name in ("a1", "a2", "a3"):
            self.world.kill(name)
        self.world.run(40.0)
        self.world.start("a2")
        self.world.run_until(lambda: self.world.are_linked("a2", "c1"))


def record_searches(world: NetworkWorld) -> list[FindDurables]:
    sent: list[FindDurables] = []
    for name in NODES:
        handover = world[name].recovery.handover
        assert handover is not None
        _record_sent(handover._search._messenger.send, handover._search._messenger, sent)
    return sent


def _record_sent(
    send: Callable[[RoutedMessage, int], None], messenger: object, sent: list[FindDurables]
) -> None:
    def record_and_send(message: RoutedMessage, attempt: int = 0) -> None:
        if isinstance(message, FindDurables):
            sent.append(message)
        send(message, attempt)

    messenger.send = record_and_send  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("at", "then"),
    [("a3", "b1"), ("d1", "a2"), *further_cases(("a3", "d1"), ("b1", "c2"))],
)
def test_process_without_state_resumes_where_the_last_one_ended(
    seed: int, at: str, then: str
) -> None:
    roaming = WideRoaming(seed, at)
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    returning = roaming.start_process(then)
    roaming.publish(5)
    roaming.check()
    assert len([event for event in returning.events if event.liveness is Liveness.RECOVERY]) >= 10
    roaming.world.run(5.0)
    assert roaming.world[at].durables.get("rover", "d") is None
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_search_that_leads_back_to_its_own_node_ends(seed: int) -> None:
    """The client came from this node."""
    roaming = WideRoaming(seed)
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    roaming.world.kill_client(roaming.start_process("d1").client)
    roaming.start_process("d1")
    roaming.world.run(5.0)
    roaming.world.kill_client(roaming.readers[-1].client)
    assert roaming.world["a3"].durables.get("rover", "d") is not None
    roaming.start_process("d1")
    roaming.publish(5)
    roaming.check(once=False)
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_search_stops_when_the_client_has_left(seed: int) -> None:
    """A search would end the client's session at its new node."""
    roaming = WideRoaming(seed)
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    roaming.world.cut("a2", "c1", refuse=True)
    roaming.world.run(5.0)
    returning = roaming.start_process("c2", "a1")
    roaming.world.run(5.0)
    assert returning.subscription is None
    roaming.world.network.refuse(roaming.world.client_address("c2", "rover"))
    roaming.world.cut_client("rover", ["c2"])
    roaming.world.run(10.0)
    assert returning.is_flowing
    roaming.world.heal("a2", "c1")
    roaming.world.run(20.0)
    roaming.publish(5)
    roaming.check()
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_simultaneous_searches_share_one_question_per_node(seed: int) -> None:
    roaming = WideRoaming(seed)
    sent = record_searches(roaming.world)
    readers = []
    for number in range(30):
        client = roaming.world.client(f"new{number}", "d1")
        readers.append(Reader(roaming.world, client, INTERESTS[1], durable="d"))
    roaming.world.run_until(lambda: all(reader.is_flowing for reader in readers))
    asked = [each.target.node for each in sent]
    # Some sessions may start later than the others.
    assert len(asked) in (len(NODES) - 1, 2 * (len(NODES) - 1))
    assert set(asked) == set(NODES) - {"d1"}
    assert max(len(each.keys) for each in sent) > 10
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_search_waits_for_a_silent_node(seed: int) -> None:
    roaming = WideRoaming(seed)
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    roaming.world.kill("a3")
    returning = roaming.start_process("d1")
    roaming.world.run(15.0)
    assert returning.subscription is None and returning.error is None
    assert roaming.world["d1"].durables.get("rover", "d") is None
    roaming.world.start("a3")
    roaming.world.run(15.0)
    roaming.publish(5)
    roaming.check()
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("node", ["b1", "a1"], ids=["told of others", "was linked to others"])
def test_isolated_node_starts_no_new_subscription(seed: int, node: str) -> None:
    roaming = WideRoaming(seed)
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    roaming.world.run(2.0)
    others = [other for other in NODES if other != node]
    for other in others:
        roaming.world.cut(node, other, refuse=True)
    roaming.world.kill(node)
    roaming.world.start(node)
    returning = roaming.start_process(node)
    roaming.world.run(20.0)
    assert returning.subscription is None and returning.error is None
    for other in others:
        roaming.world.heal(node, other)
    roaming.world.run(20.0)
    roaming.publish(5)
    roaming.check()
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("away", "restarted"),
    [(5.0, True), (40.0, False), *further_cases((5.0, False), (40.0, True))],
)
def test_search_waits_for_a_partitioned_half_of_the_network(
    seed: int, away: float, restarted: bool
) -> None:
    """The client's node has links only to nodes with the same knowledge."""
    roaming = WideRoaming(seed)
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    roaming.world.cut("a2", "c1", refuse=True)
    roaming.world.run(away)
    if restarted:
        roaming.world.kill("c2")
        roaming.world.start("c2")
        roaming.world.run(LEARNING_TIME + 2.0)
    returning = roaming.start_process("c2")
    roaming.world.run(10.0)
    assert returning.subscription is None and returning.error is None
    roaming.world.heal("a2", "c1")
    roaming.world.run(20.0)
    roaming.publish(5)
    roaming.check()
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("restarted", [False, True])
def test_long_silent_nodes_are_named_in_a_warning(seed: int, restarted: bool) -> None:
    """A node that starts after they fell silent would give the warning for ever."""
    roaming = WideRoaming(seed)
    roaming.world.cut("a2", "c1", refuse=True)
    roaming.world.run(5.0)
    if restarted:
        roaming.world.kill("c2")
        roaming.world.start("c2")
    roaming.world.run(RETURN_TIME + 40.0)
    new = Reader(roaming.world, roaming.world.client("new", "c2"), INTERESTS[1], durable="d")
    roaming.world.run(10.0)
    assert new.is_flowing and new.subscription is not None
    if restarted:
        assert not new.subscription.warnings
    else:
        (warning,) = new.subscription.warnings
        assert "starts as a new subscription" in warning and "4 other origins" in warning
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("node", ["d1", "a2"], ids=["asked by another cluster", "asked itself"])
def test_node_without_its_cluster_does_not_answer_for_it(seed: int, node: str) -> None:
    """No table named the other nodes when this one restarted."""
    roaming = WideRoaming(seed, "a1")
    roaming.publish(5)
    roaming.kill_process()
    roaming.publish(5)
    roaming.restart_only_a2()
    roaming.world.run(LEARNING_TIME)
    returning = roaming.start_process(node)
    roaming.world.run(15.0)
    assert returning.subscription is None and returning.error is None
    for name in ("a1", "a3"):
        roaming.world.start(name)
    roaming.world.run(15.0)
    roaming.publish(5)
    roaming.check()
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_node_alone_for_long_answers_for_its_cluster(seed: int) -> None:
    roaming = WideRoaming(seed)
    roaming.restart_only_a2()
    roaming.world.run(ALONE_LEARNING_TIME)
    new = Reader(roaming.world, roaming.world.client("new", "d1"), INTERESTS[1], durable="d")
    roaming.world.run(10.0)
    assert new.is_flowing
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_isolated_node_warns_a_new_subscription(seed: int) -> None:
    roaming = WideRoaming(seed)
    for other in NODES[:-1]:
        roaming.world.cut("d1", other, refuse=True)
    roaming.world.run(2.0)
    client = roaming.world.client("lonely", "d1")
    reader = Reader(roaming.world, client, INTERESTS[1], durable="d")
    roaming.world.run(GIVE_UP_AFTER - 5.0)
    assert reader.subscription is None
    roaming.world.run(10.0)
    assert reader.is_flowing and reader.subscription is not None
    (warning,) = reader.subscription.warnings
    assert "starts as a new subscription" in warning and "no link" in warning
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_started_node_answers_incomplete_while_it_learns_the_network(seed: int) -> None:
    roaming = WideRoaming(seed)
    roaming.world.kill("c1")
    roaming.world.start("c1")
    handover = roaming.world["c1"].recovery.handover
    assert handover is not None
    sent: list[RoutedMessage] = []
    handover._search._messenger.send = lambda message, attempt=0: sent.append(message)  # type: ignore[method-assign]
    asker, asked = Address(("alps", "a"), "a2"), Address(("sea", "c"), "c1")
    question = FindDurables(asked, asker, 9, 1, (("nobody", "d"),), ("sea", "c"), 1_000)
    roaming.world.run(1.0)
    handover._search._receive_question(question)
    (answer,) = sent
    assert isinstance(answer, DurablesFound) and not answer.is_complete
    roaming.world.run(LEARNING_TIME)
    handover._search._receive_question(question)
    assert isinstance(sent[1], FindDurables) and sent[1].target.node == "c2"
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_node_does_not_answer_for_a_foreign_unit(seed: int) -> None:
    """Nodes may disagree on the unit of one of them."""
    roaming = WideRoaming(seed)
    handover = roaming.world["d1"].recovery.handover
    assert handover is not None
    search = handover._search
    address = roaming.world["c2"].recovery.handover._search._messenger.own_address  # type: ignore[union-attr]
    asked = search._send_question(address, ("alps",), [("rover", "d")], 1_000)
    answers: list[object] = []
    asked.addCallback(answers.append)
    roaming.world.run(0.5 + BATCH_DELAY)
    (answer,) = answers
    assert (answer.found, answer.is_complete) == ((), False)  # type: ignore[attr-defined]
    roaming.world.close()
