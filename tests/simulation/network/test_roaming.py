"""Durable subscriptions follow their clients to other nodes (P11, A16, T34)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.client.effects import ResumePoint
from broker.cluster.traffic.messages import RoutedMessage
from broker.errors import NotConnected, UnknownSubscription
from broker.event.envelope import Liveness
from broker.event.place import Position
from broker.recovery.durable_handover import GIVE_UP_AFTER, MAY_REPEAT
from broker.recovery.messages import Release
from broker.testing.flights import INTERESTS
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from tests.seeds import further_cases, seeds
from tests.simulation.network.roaming import Roaming

SEEDS = seeds(1, 4)


@pytest.mark.parametrize("seed", SEEDS)
def test_new_process_at_another_node_resumes_where_the_last_one_ended(seed: int) -> None:
    roaming = Roaming(seed)
    roaming.publish(10)
    roaming.kill_process()
    roaming.publish(10)
    returning = roaming.start_process("new")
    roaming.publish(5)
    roaming.check()
    recovered = [event for event in returning.events if event.liveness is Liveness.RECOVERY]
    assert len(recovered) >= 20
    handover = roaming.world["old"].recovery.handover
    assert handover is not None and handover.responder.handed_over == 1
    roaming.world.run(5.0)
    assert roaming.world["old"].durables.get("rover", "d") is None
    assert roaming.world["new"].durables.get("rover", "d") is not None
    roaming.world.close()


def test_lag_moves_with_the_subscription() -> None:
    roaming = Roaming(1)
    world = roaming.world
    roaming.publish(3)
    roaming.kill_process()
    roaming.publish(10)
    asking_client = {name: world.client(f"asker-{name}", name) for name in ("old", "new")}
    world.run(1.0)

    def lag(name: str) -> Any:
        return world.wait(asking_client[name].ask("durable-show", client="rover", name="d"))

    assert lag("old")["events"] == 20
    roaming.start_process("new")
    world.run(2.0)
    world.kill_client(roaming.readers.pop().client)
    world.run(1.0)
    row = lag("new")
    assert row["events"] + row["before_log"] == 20
    row = lag("old")
    assert (row["state"], row["events"], row["before_log"]) == ("moved", None, None)
    for name in ("old", "new"):
        world.kill(name)
        world.start(name)
    world.run(5.0)
    row = lag("new")
    assert row["events"] + row["before_log"] == 20
    roaming.start_process("new")
    roaming.check()
    row = lag("new")
    assert (row["events"], row["before_log"], row["seconds"]) == (0, 0, 0.0)
    world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_client_moves_from_node_to_node_and_back(seed: int) -> None:
    roaming = Roaming(seed)
    for node in ("new", "old", "new", "old"):
        roaming.publish(5)
        roaming.kill_process()
        roaming.publish(5)
        roaming.start_process(node)
        roaming.world.run(1.0)
    roaming.publish(5)
    roaming.check()
    roaming.world.close()


@pytest.mark.parametrize(
    ("stale", "then"),
    [
        ("old", "third"),
        ("new", "far"),
        ("old", "new"),
        ("new", "new"),
        *further_cases(("new", "third"), ("old", "far"), ("old", "old"), ("new", "old")),
    ],
)
def test_restarted_node_does_not_bring_back_an_old_position(stale: str, then: str) -> None:
    current = {"old": "new", "new": "old"}[stale]
    roaming = Roaming(1)
    roaming.world.add("third", "one", join=["old"])
    if stale == "new":
        roaming.kill_process()
        roaming.start_process("new")
    roaming.world.run(3.0)
    publisher = roaming.publishers[0]
    roaming.publishers = [publisher]
    roaming.kill_process()
    reader = roaming.start_process(stale, current)
    roaming.publish(10)
    read(roaming.world, reader)
    roaming.world.kill(stale)
    roaming.world.run(10.0)
    roaming.publish(10)
    roaming.kill_process()
    roaming.world.start(stale)
    roaming.world.run(10.0)
    roaming.start_process(then)
    roaming.publish(5)
    roaming.check()
    roaming.world.run(5.0)
    holders = [
        name
        for name in ("old", "new", "far", "third")
        if roaming.world[name].durables.get("rover", "d")
    ]
    assert holders == [then]
    roaming.world.close()


@pytest.mark.parametrize("then", ["old", "new"])
def test_old_position_does_not_hide_a_newer_one_in_another_cluster(then: str) -> None:
    roaming = Roaming(1)
    roaming.publishers = [roaming.publishers[0]]
    roaming.kill_process()
    reader = roaming.start_process("old", "far")
    roaming.publish(10)
    read(roaming.world, reader)
    roaming.world.kill("old")
    roaming.world.run(10.0)
    roaming.publish(10)
    roaming.kill_process()
    roaming.world.start("old")
    roaming.world.run(10.0)
    roaming.start_process(then)
    roaming.publish(5)
    roaming.check()
    roaming.world.run(5.0)
    holders = [
        name for name in ("old", "new", "far") if roaming.world[name].durables.get("rover", "d")
    ]
    assert holders == [then]
    roaming.world.close()


@pytest.mark.parametrize("returns", [True, False])
def test_old_position_waits_for_a_silent_node_with_a_newer_one(returns: bool) -> None:
    roaming = Roaming(1)
    roaming.kill_process()
    reader = roaming.start_process("old", "new")
    roaming.publish(10)
    read(roaming.world, reader)
    roaming.world.kill("old")
    roaming.world.run(10.0)
    roaming.publish(10)
    roaming.kill_process()
    roaming.world.run(5.0)
    roaming.world.kill("new")
    roaming.world.start("old")
    roaming.world.run(5.0)
    returning = roaming.start_process("far")
    roaming.world.run(2.0)
    assert not returning.is_flowing
    if returns:
        roaming.world.start("new")
    roaming.world.run(10.0)
    assert returning.subscription is not None and returning.is_flowing
    assert [each.endswith(MAY_REPEAT) for each in returning.subscription.warnings] == [True][
        returns:
    ]
    if not returns:
        roaming.world.start("new")
    roaming.publish(5)
    roaming.check(once=returns)
    roaming.world.close()


@pytest.mark.parametrize("archived", [False, True])
def test_isolated_node_with_an_old_position_warns_of_repeats(archived: bool) -> None:
    """The archive may have a newer position."""
    roaming = Roaming(1, archived=archived)
    roaming.publishers = [roaming.publishers[0]]
    roaming.kill_process()
    reader = roaming.start_process("old", "new")
    roaming.publish(10)
    read(roaming.world, reader)
    roaming.world.kill("old")
    roaming.world.run(10.0)
    roaming.publish(10)
    roaming.kill_process()
    roaming.world.run(5.0)
    roaming.world.kill("new")
    roaming.world.start("old")
    returning = roaming.start_process("old")
    roaming.world.run(30.0)
    assert returning.subscription is not None and returning.is_flowing
    (warning,) = returning.subscription.warnings
    where = "at the archive's position" if archived else "at this node's old position"
    assert f"continues {where}: " in warning
    assert warning.endswith(MAY_REPEAT)
    roaming.world.start("new")
    roaming.publish(5)
    roaming.check(once=archived)
    roaming.world.close()


def _kill_new(roaming: Roaming) -> None:
    roaming.world.kill("new")
    roaming.world.run(1.0)
    roaming.world.start("new")


def _kill_old_for_a_while(roaming: Roaming) -> None:
    roaming.world.kill("old")
    roaming.world.run(3.0)
    roaming.world.start("old")


def _kill_client(roaming: Roaming) -> None:
    roaming.world.kill_client(roaming.readers[-1].client)
    roaming.start_process("new")


def _cut(roaming: Roaming) -> None:
    roaming.world.cut("old", "new", refuse=True)
    roaming.world.run(3.0)
    roaming.world.heal("old", "new")


def _cut_client(roaming: Roaming) -> None:
    roaming.world.cut_client("rover")


#: In each step of the handover and between them, in seconds.
MOMENTS = [0.0, 0.004, 0.008, 0.012, 0.016, 0.02, 0.025, 0.03, 0.04, 0.06, 0.1, 0.2, 0.5]


FAULTS = (_kill_new, _kill_old_for_a_while, _kill_client, _cut, _cut_client)


@pytest.mark.parametrize(
    ("fault", "moment", "seed"),
    [
        *((fault, moment, number % 2) for fault in FAULTS for number, moment in enumerate(MOMENTS)),
        *further_cases(
            *(
                (fault, moment, 1 - number % 2)
                for fault in FAULTS
                for number, moment in enumerate(MOMENTS)
            )
        ),
    ],
)
def test_handover_survives_a_fault_in_each_step(
    fault: Callable[[Roaming], None], moment: float, seed: int
) -> None:
    roaming = Roaming(seed)
    roaming.publish(10)
    roaming.kill_process()
    roaming.publish(10)
    roaming.start_process("new")
    roaming.world.run(moment)
    fault(roaming)
    roaming.publish(5)
    # A killed process may have processed events that it did not acknowledge.
    roaming.check(once=fault is not _kill_client)
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_subscription_with_a_silent_previous_node_does_not_start_anew(seed: int) -> None:
    """A new start would lose events."""
    roaming = Roaming(seed)
    roaming.publish(10)
    roaming.kill_process()
    client = roaming.readers[0].client
    assert client.welcome is not None
    previous_address = client.welcome.address
    roaming.world.kill("old")
    roaming.publish(5)
    left: dict[str, Any] = {
        "key_seed": roaming.key_seed,
        "resume_points": {"d": ResumePoint(Position(), previous_address)},
    }
    again = roaming.world.client("rover", "new", incarnation=2, **left)
    reader = Reader(roaming.world, again, INTERESTS[1], durable="d")
    roaming.world.run(GIVE_UP_AFTER + 10.0)
    assert isinstance(reader.error, NotConnected), reader.error
    assert "old" in str(reader.error)
    # The subscription may return when that node does.
    assert roaming.world["new"].durables.get("rover", "d") is None
    roaming.world.start("old")
    roaming.world.run(5.0)
    third = roaming.world.client("rover", "new", incarnation=3, **left)
    roaming.readers.append(Reader(roaming.world, third, INTERESTS[1], durable="d"))
    roaming.check()
    roaming.world.close()


def test_new_subscription_warns_of_a_node_that_left_the_map() -> None:
    roaming = Roaming(1, key_seed=b"")
    roaming.publish(10)
    roaming.kill_process()
    roaming.world.kill("old")
    roaming.world.run(120.0)
    returning = roaming.start_process("new")
    roaming.world.run(3.0)
    assert returning.subscription is not None and returning.is_flowing
    (warning,) = returning.subscription.warnings
    assert "one/old" in warning and "starts as a new subscription" in warning
    asking_client = roaming.world.client("asker", "new")
    result = roaming.world.wait(asking_client.ask("durable-delete", client="rover", name="d"))
    assert (result["here"], result["silent"]) == (True, ["one/old"])
    result = roaming.world.wait(asking_client.ask("durable-delete", client="rover", name="d"))
    assert not result["here"] and result["silent"] == ["one/old"]
    roaming.world.start("old")
    roaming.world.run(60.0)
    result = roaming.world.wait(asking_client.ask("durable-delete", client="rover", name="d"))
    assert result["elsewhere"] == ["one/old"] and not result["silent"]
    with pytest.raises(UnknownSubscription, match="no reachable node"):
        roaming.world.wait(asking_client.ask("durable-delete", client="rover", name="d"))
    roaming.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_old_node_releases_after_a_lost_message(seed: int) -> None:
    roaming = Roaming(seed)
    roaming.publish(10)
    roaming.kill_process()
    roaming.publish(5)
    roaming.start_process("new")
    lost: list[RoutedMessage] = []
    handover = roaming.world["new"].recovery.handover
    assert handover is not None
    send = handover._messenger.send

    def lossy(message: RoutedMessage, attempt: int = 0) -> None:
        if isinstance(message, Release) and not lost:
            lost.append(message)
        else:
            send(message, attempt)

    handover._messenger.send = lossy  # type: ignore[method-assign]
    read(roaming.world, roaming.readers[-1], seconds=5.0)
    assert lost
    roaming.publish(1)
    read(roaming.world, roaming.readers[-1], seconds=5.0)
    assert roaming.world["old"].durables.get("rover", "d") is None
    durable = roaming.world["new"].durables.get("rover", "d")
    assert durable is not None and durable.previous_address == ""
    roaming.check()
    roaming.world.close()


def test_filtered_events_move_the_position_at_a_node_that_has_logged_nothing() -> None:
    """The position from another node names the log of this one."""
    with NetworkWorld(1) as world:
        world.add("old", "one")
        world.add("new", "one", join=["old"])
        world.run(2.0)
        publisher = Publisher(world.client("publisher", "old"))
        first = Reader(world, world.client("rover", "old"), INTERESTS[3], durable="d")
        world.run_until(lambda: first.is_flowing)
        publisher.publish(altitude=7)
        read(world, first)
        world.kill_client(first.client)
        rover = world.client("rover", "new", incarnation=2)
        second = Reader(world, rover, INTERESTS[3], durable="d")
        world.run_until(lambda: second.is_flowing)
        for _ in range(5):
            publisher.publish(altitude=8)
        read(world, second, seconds=5.0)
        log = world["old"].event_log
        assert second.subscription is not None
        assert second.subscription.position.marks[log.origin] == log.own_end
