"""Two processes run on copies of one node's data at once (issue 18, section 4)."""

from __future__ import annotations

import pytest

from broker.cluster.clone_detection import clone_error
from broker.cluster.handshake_core import Refusal
from broker.cluster.handshake_messages import NodeHello
from broker.cluster.map.name_bindings import SignedDescriptor, prove_descriptor
from broker.errors import Cloned
from broker.order_certificates.signing_key import SigningKey
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, name_of, read
from tests.seeds import seeds


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_older_clone_stops_and_events_of_both_arrive(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("b", "two")
        world.add("a", "one", gateways=["b"])
        world.add("twin", "one", gateways=["b"], configured_name="a", start=False)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        at_a = Publisher(world.client("at-a", "a"))
        world.run_until(lambda: far.is_flowing)
        for _ in range(5):
            at_a.publish()
        read(world, far)
        world.clone_disk("a", "twin")
        for _ in range(5):
            at_a.publish()
        read(world, far)
        world.cut("a", "b", refuse=True)
        for _ in range(5):
            at_a.publish()
        world.run(5.0)
        assert len(at_a.receipts) == 15
        world.start("twin")
        at_twin = Publisher(world.client("at-twin", "twin"))
        for _ in range(5):
            at_twin.publish()
        read(world, far, seconds=10.0)
        assert len(far.events) == 15
        world.heal("a", "b")
        world.run(60.0)
        with pytest.raises(Cloned, match="run on copies of one log"):
            world["a"].event_log.check_available()
        at_a.publish()
        at_twin.publish()
        read(world, far, seconds=10.0)
        assert len(at_a.receipts) == 15 and len(at_twin.receipts) == 6
        world.kill("a")
        world.rename("a", "a-2")
        world.start("a")
        read(world, far, seconds=60.0)
        expected = [("at-a", 1, n) for n in range(1, 17)] + [("at-twin", 1, n) for n in range(1, 7)]
        assert sorted(map(name_of, far.events)) == expected, f"seed {seed}"
        assert far.gaps == []
        assert len(at_a.receipts) == 16
        assert world["a"].event_log.pending_adoption is None


def test_quick_restarts_are_not_taken_for_clones() -> None:
    with NetworkWorld(1) as world:
        world.add("b", "two")
        world.add("a", "one", gateways=["b"])
        world.run(3.0)
        for _ in range(5):
            world.kill("a")
            world.start("a")
            world.run(2.0)
        world.set_clock_offset("a", -60_000)
        world.kill("a")
        world.start("a")
        world.run(60.0)
        world["a"].event_log.check_available()
        assert world.are_linked("a", "b")


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_clones_in_a_cluster_are_detected_without_a_common_neighbour(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("x", "one")
        world.add("y", "one", join=["x"])
        world.add("a", "one", join=["x"])
        world.add("twin", "one", join=["y"], configured_name="a", start=False)
        world.run(5.0)
        far = Reader(world, world.client("far", "y"), durable="d")
        at_a = Publisher(world.client("at-a", "a"))
        world.run_until(lambda: far.is_flowing)
        for _ in range(5):
            at_a.publish()
        read(world, far)
        world.clone_disk("a", "twin")
        world.cut("a", "y", refuse=True)
        world.cut("twin", "x", refuse=True)
        world.start("twin")
        at_twin = Publisher(world.client("at-twin", "twin"))
        world.run(3.0)
        for _ in range(5):
            at_twin.publish()
            at_a.publish()
        world.run(120.0)
        with pytest.raises(Cloned, match="run on copies of one log"):
            world["a"].event_log.check_available()
        world["twin"].event_log.check_available()
        world.kill("a")
        world.rename("a", "a-2")
        world.start("a")
        world.heal("a", "y")
        read(world, far, seconds=90.0)
        expected = [("at-a", 1, n) for n in range(1, 11)] + [("at-twin", 1, n) for n in range(1, 6)]
        assert sorted(map(name_of, far.events)) == expected, f"seed {seed}"
        assert far.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_clones_are_detected_without_a_node_linked_to_both(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("a", "one")
        world.add("y", "two", gateways=["a"])
        world.add("z", "three", gateways=["y", "twin"])
        world.add("twin", "one", configured_name="a", start=False)
        world.run(3.0)
        far = Reader(world, world.client("far", "y"), durable="d")
        at_a = Publisher(world.client("at-a", "a"))
        world.run_until(lambda: far.is_flowing)
        for _ in range(5):
            at_a.publish()
        read(world, far)
        world.clone_disk("a", "twin")
        world.start("twin")
        at_twin = Publisher(world.client("at-twin", "twin"))
        for _ in range(5):
            at_a.publish()
            at_twin.publish()
            world.run(0.5)
        world.run(90.0)
        with pytest.raises(Cloned, match=r"a at a:1 and at twin:1 run on copies of one log"):
            world["a"].event_log.check_available()
        world["twin"].event_log.check_available()
        world.kill("a")
        world.rename("a", "a-2")
        world.start("a")
        read(world, far, seconds=90.0)
        expected = [("at-a", 1, n) for n in range(1, 11)] + [("at-twin", 1, n) for n in range(1, 6)]
        assert sorted(map(name_of, far.events)) == expected, f"seed {seed}"
        assert far.gaps == []


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_restored_member_with_an_earlier_clock_is_not_taken_for_a_clone(seed: int) -> None:
    with NetworkWorld(seed) as world:
        world.add("x", "one")
        world.add("y", "one", join=["x"])
        world.add("a", "one", join=["x", "y"])
        world.run(5.0)
        copy = world.copy_disk("a")
        world.kill("a")
        world.start("a")
        world.run(5.0)
        world.kill("a")
        world.restore_disk("a", copy)
        world.set_clock_offset("a", -3_600_000)
        world.start("a")
        world.run(120.0)
        world["a"].event_log.check_available()
        assert world.are_linked("a", "x") or world.are_linked("a", "y")


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("starts", [1, 2])
def test_original_resumes_after_its_clone_is_gone(starts: int, restarted: bool) -> None:
    """The epochs of the original seem to follow after its restart. The other node's position is a
    place of the clone."""
    with NetworkWorld(starts) as world:
        world.add("b", "two")
        world.add("a", "one", gateways=["b"])
        world.add("twin", "one", gateways=["b"], configured_name="a", start=False)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), durable="d")
        at_a = Publisher(world.client("at-a", "a"))
        world.run_until(lambda: far.is_flowing)
        for _ in range(5):
            at_a.publish()
        read(world, far)
        world.clone_disk("a", "twin")
        world.cut("a", "b", refuse=True)
        for _ in range(5):
            at_a.publish()
        world.run(2.0)
        at_twin = Publisher(world.client("at-twin", "twin"))
        for _ in range(starts):
            world.start("twin")
            at_twin.publish()
            read(world, far, seconds=10.0)
            world.kill("twin")
        assert len(at_a.receipts) == 10 and len(at_twin.receipts) == starts
        for name in ("a", "b") if restarted else ("a",):
            world.kill(name)
            world.start(name)
        world.heal("a", "b")
        read(world, far, seconds=60.0)
        expected = [("at-a", 1, n) for n in range(1, 11)]
        expected += [("at-twin", 1, n) for n in range(1, starts + 1)]
        assert sorted(map(name_of, far.events)) == expected
        assert far.gaps == []


def test_lost_events_of_a_clone_are_a_gap_for_readers_of_the_original() -> None:
    """The reader's position is on the original's branch, after the start of the clone's."""
    with NetworkWorld(1) as world:
        world.add("b", "two")
        world.add("a", "one", gateways=["b"])
        world.add("twin", "one", gateways=["b"], configured_name="a", start=False)
        world.run(3.0)
        far = Reader(world, world.client("far", "b"), INTERESTS[3], durable="d")
        own = Reader(world, world.client("own", "a"), durable="d")
        at_a = Publisher(world.client("at-a", "a"))
        world.run_until(lambda: far.is_flowing and own.is_flowing)
        at_a.publish()
        read(world, far, own)
        world.clone_disk("a", "twin")
        world.cut("a", "b", refuse=True)
        for _ in range(5):
            at_a.publish()
        world.start("twin")
        at_twin = Publisher(world.client("at-twin", "twin"))
        for _ in range(3):
            at_twin.publish()
        read(world, own, seconds=10.0)
        world.kill_client(own.client)
        world.kill("twin")
        world.kill("a")
        world.start("a")
        world.heal("a", "b")
        world.run(20.0)
        at_a.publish(altitude=7)
        back = Reader(world, world.client("own", "a", incarnation=2), durable="d")
        read(world, far, back, seconds=40.0)
        assert ("at-a", 1, 7) in map(name_of, back.events)
        bounds = [(gap.first.offset, gap.last.offset, gap.reason) for gap in back.gaps]
        assert bounds == [(2, 4, "lost")]


def test_a_node_does_not_believe_in_a_clone_without_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with NetworkWorld(1) as world:
        world.add("liar", "two")
        world.add("a", "one", gateways=["liar"])

        refused: list[NodeHello] = []

        def refuse(hello: NodeHello, *_: object) -> Refusal:
            refused.append(hello)
            later = hello.node._replace(incarnation=hello.node.incarnation + 1)
            invented = SignedDescriptor(later, prove_descriptor(SigningKey.generate(), later))
            return Refusal(clone_error("a", "here", "there"), later=(invented,))

        network = world["liar"].network
        assert network is not None
        monkeypatch.setattr(network.membership.acceptor, "decide_admission", refuse)
        at_a = Publisher(world.client("at-a", "a"))
        world.run(120.0)
        assert refused
        at_a.publish()
        world.run(1.0)
        assert len(at_a.receipts) == 1
        world["a"].event_log.check_available()
