"""Durable subscriptions that follow their clients to other nodes (P11, A16, T34)."""

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
from broker.testing.simulated_network import NetworkWorld
from tests.seeds import seeds
from tests.simulation.network.watching import INTERESTS, Publisher, Reader, name_of, read, truths

SEEDS = seeds(2, 4)


class Roaming:
    """A client reads at `old`, leaves, and comes back at `new` as another process."""

    def __init__(self, seed: int, *, archived: bool = False) -> None:
        self.world = world = NetworkWorld(seed, archived=archived)
        world.add("old", "one")
        world.add("new", "one", join=["old"])
        world.add("far", "two", gateways=["old", "new"])
        world.run(2.0)
        self.publishers = [
            Publisher(world, world.client("p-far", "far")),
            Publisher(world, world.client("p-new", "new")),
        ]
        self.readers: list[Reader] = []
        self.incarnation = 0
        self.come("old")
        world.run(2.0)
        assert self.readers[0].flowing

    def come(self, *nodes: str) -> Reader:
        """A new process of the client."""
        self.incarnation += 1
        client = self.world.client("rover", *nodes, incarnation=self.incarnation)
        self.readers.append(Reader(self.world, client, INTERESTS[1], durable="d"))
        return self.readers[-1]

    def publish(self, count: int) -> None:
        for _ in range(count):
            for publisher in self.publishers:
                publisher.publish("asdi.zbw.tz")
        self.world.run(0.5)

    def leave(self) -> None:
        """The process ends, when what it has read is acknowledged."""
        read(self.world, self.readers[-1])
        self.world.kill_client(self.readers[-1].client)

    def check(self, *, once: bool = True) -> None:
        """All that was published came to one of the processes, once and in order."""
        world = self.world
        world.run_until(lambda: not any(each.client.unacknowledged for each in self.publishers))
        read(world, *self.readers[1:], seconds=30.0)
        logs = truths(world)
        wanted = set(self.readers[0].wanted(logs))
        got = [name_of(event) for reader in self.readers for event in reader.events]
        where = f"seed {world.seed}"
        assert [reader.error for reader in self.readers] == [None] * len(self.readers), where
        assert set(got) == wanted, f"{sorted(wanted - set(got))} are missing ({where})"
        if once:
            assert len(got) == len(wanted), f"some came twice ({where})"
        for reader in self.readers:
            assert not reader.gaps, where
            assert not reader.wrong_liveness, where
            newest: dict[tuple[str, int], int] = {}
            for client_id, incarnation, number in map(name_of, reader.events):
                assert newest.get((client_id, incarnation), 0) < number, where
                newest[client_id, incarnation] = number


@pytest.mark.parametrize("seed", SEEDS)
def test_a_new_process_at_another_node_goes_on_where_the_last_one_was(seed: int) -> None:
    it = Roaming(seed)
    it.publish(10)
    it.leave()
    it.publish(10)
    back = it.come("new")
    it.publish(5)
    it.check()
    recovered = [event for event in back.events if event.liveness is Liveness.RECOVERY]
    assert len(recovered) >= 20
    assert it.world["old"].recovery.handover.handed_over == 1
    # Once all is processed, the old node keeps nothing of it.
    it.world.run(5.0)
    assert it.world["old"].durables.get("rover", "d") is None
    assert it.world["new"].durables.get("rover", "d") is not None
    it.world.close()


def test_the_lag_goes_with_a_subscription_to_its_node() -> None:
    it = Roaming(1)
    world = it.world
    it.publish(3)
    it.leave()
    it.publish(10)
    asker = {name: world.client(f"asker-{name}", name) for name in ("old", "new")}
    world.run(1.0)

    def lag(name: str) -> Any:
        return world.wait(asker[name].ask("durable-show", client="rover", name="d"))

    assert lag("old")["events"] == 20
    # It comes to the new node, which has nothing of the far one's events, and dies at once.
    it.come("new")
    world.run(2.0)
    world.kill_client(it.readers.pop().client)
    world.run(1.0)
    row = lag("new")
    assert row["events"] + row["before_log"] == 20
    # The former node does not know how it goes on.
    row = lag("old")
    assert (row["state"], row["events"], row["before_log"]) == ("moved", None, None)
    for name in ("old", "new"):
        world.kill(name)
        world.start(name)
    world.run(5.0)
    row = lag("new")
    assert row["events"] + row["before_log"] == 20
    it.come("new")
    it.check()
    row = lag("new")
    assert (row["events"], row["before_log"], row["seconds"]) == (0, 0, 0.0)
    world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_client_goes_from_node_to_node_and_back(seed: int) -> None:
    it = Roaming(seed)
    for node in ("new", "old", "new", "old"):
        it.publish(5)
        it.leave()
        it.publish(5)
        it.come(node)
        it.world.run(1.0)
    it.publish(5)
    it.check()
    it.world.close()


@pytest.mark.parametrize("then", ["third", "far", "old", "new"])
@pytest.mark.parametrize("stale", ["old", "new"])
def test_a_node_that_was_away_does_not_bring_an_old_position_back(stale: str, then: str) -> None:
    """One process goes on at another node while the first one is down, and ends there."""
    current = {"old": "new", "new": "old"}[stale]
    it = Roaming(1)
    it.world.add("third", "one", join=["old"])
    if stale == "new":
        it.leave()
        it.come("new")
    it.world.run(3.0)
    publisher = it.publishers[0]
    it.publishers = [publisher]
    it.leave()
    reader = it.come(stale, current)
    it.publish(10)
    read(it.world, reader)
    it.world.kill(stale)
    it.world.run(10.0)
    it.publish(10)
    it.leave()
    it.world.start(stale)
    it.world.run(10.0)
    it.come(then)
    it.publish(5)
    it.check()
    it.world.run(5.0)
    holders = [
        name for name in ("old", "new", "far", "third") if it.world[name].durables.get("rover", "d")
    ]
    assert holders == [then]
    it.world.close()


@pytest.mark.parametrize("then", ["old", "new"])
def test_a_position_at_a_node_that_was_away_does_not_hide_one_in_another_cluster(then: str) -> None:
    it = Roaming(1)
    it.publishers = [it.publishers[0]]
    it.leave()
    reader = it.come("old", "far")
    it.publish(10)
    read(it.world, reader)
    it.world.kill("old")
    it.world.run(10.0)
    it.publish(10)
    it.leave()
    it.world.start("old")
    it.world.run(10.0)
    it.come(then)
    it.publish(5)
    it.check()
    it.world.run(5.0)
    holders = [name for name in ("old", "new", "far") if it.world[name].durables.get("rover", "d")]
    assert holders == [then]
    it.world.close()


@pytest.mark.parametrize("returns", [True, False])
def test_an_old_position_waits_for_a_silent_node_that_may_have_a_newer_one(returns: bool) -> None:
    it = Roaming(1)
    it.leave()
    reader = it.come("old", "new")
    it.publish(10)
    read(it.world, reader)
    it.world.kill("old")
    it.world.run(10.0)
    it.publish(10)
    it.leave()
    it.world.run(5.0)
    it.world.kill("new")
    it.world.start("old")
    it.world.run(5.0)
    back = it.come("far")
    it.world.run(2.0)
    assert not back.flowing
    if returns:
        it.world.start("new")
    it.world.run(10.0)
    assert back.subscription is not None and back.flowing
    assert [each.endswith(MAY_REPEAT) for each in back.subscription.warnings] == [True][returns:]
    if not returns:
        it.world.start("new")
    it.publish(5)
    it.check(once=returns)
    it.world.close()


@pytest.mark.parametrize("archived", [False, True])
def test_a_node_with_an_old_position_that_can_ask_nobody(archived: bool) -> None:
    """The archive may know a newer one. The client is told that events may come again."""
    it = Roaming(1, archived=archived)
    it.publishers = [it.publishers[0]]
    it.leave()
    reader = it.come("old", "new")
    it.publish(10)
    read(it.world, reader)
    it.world.kill("old")
    it.world.run(10.0)
    it.publish(10)
    it.leave()
    it.world.run(5.0)
    it.world.kill("new")
    it.world.start("old")
    back = it.come("old")
    it.world.run(30.0)
    assert back.subscription is not None and back.flowing
    (warning,) = back.subscription.warnings
    where = "at the archive's position" if archived else "at this node's old position"
    assert f"continues {where}: " in warning
    assert warning.endswith(MAY_REPEAT)
    it.world.start("new")
    it.publish(5)
    it.check(once=archived)
    it.world.close()


def _kill_new(it: Roaming) -> None:
    it.world.kill("new")
    it.world.run(1.0)
    it.world.start("new")


def _kill_old_for_a_while(it: Roaming) -> None:
    it.world.kill("old")
    it.world.run(3.0)
    it.world.start("old")


def _kill_client(it: Roaming) -> None:
    it.world.kill_client(it.readers[-1].client)
    it.come("new")


def _cut(it: Roaming) -> None:
    it.world.cut("old", "new", refuse=True)
    it.world.run(3.0)
    it.world.heal("old", "new")


def _cut_client(it: Roaming) -> None:
    it.world.cut_client("rover")


#: Seconds after the client has come: in each step of the hand-off, and in between.
MOMENTS = [0.0, 0.004, 0.008, 0.012, 0.016, 0.02, 0.025, 0.03, 0.04, 0.06, 0.1, 0.2, 0.5]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    "trouble", [_kill_new, _kill_old_for_a_while, _kill_client, _cut, _cut_client]
)
def test_a_hand_off_survives_in_each_of_its_steps(
    trouble: Callable[[Roaming], None], moment: float
) -> None:
    for seed in range(2):
        it = Roaming(seed)
        it.publish(10)
        it.leave()
        it.publish(10)
        it.come("new")
        it.world.run(moment)
        trouble(it)
        it.publish(5)
        # A process that ended had processed what it did not acknowledge any more.
        it.check(once=trouble is not _kill_client)
        it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_who_can_not_be_told_where_it_was_is_not_taken_for_a_new_one(seed: int) -> None:
    """Its node is gone, it remembers no position, and there is no archive: it would miss events."""
    it = Roaming(seed)
    it.publish(10)
    it.leave()
    client = it.readers[0].client
    assert client.welcome is not None
    former = client.welcome.address
    it.world.kill("old")
    it.publish(5)
    left = {"d": ResumePoint(Position(), former)}
    again = it.world.client("rover", "new", incarnation=2, resume_points=left)
    reader = Reader(it.world, again, INTERESTS[1], durable="d")
    it.world.run(GIVE_UP_AFTER + 10.0)
    assert isinstance(reader.error, NotConnected), reader.error
    assert "old" in str(reader.error)
    # Nothing of it stays here: it may come again when that node is back.
    assert it.world["new"].durables.get("rover", "d") is None
    it.world.start("old")
    it.world.run(5.0)
    third = it.world.client("rover", "new", incarnation=3, resume_points=left)
    it.readers.append(Reader(it.world, third, INTERESTS[1], durable="d"))
    it.check()
    it.world.close()


def test_a_node_that_has_left_the_map_may_have_what_begins_anew() -> None:
    """Its client is told so at once: otherwise it would miss events in silence."""
    it = Roaming(1)
    it.publish(10)
    it.leave()
    it.world.kill("old")
    it.world.run(120.0)
    back = it.come("new")
    it.world.run(3.0)
    assert back.subscription is not None and back.flowing
    (warning,) = back.subscription.warnings
    assert "one/old" in warning and "starts as a new subscription" in warning
    # A deletion names it, too: it has that subscription still.
    asker = it.world.client("asker", "new")
    told = it.world.wait(asker.ask("durable-delete", client="rover", name="d"))
    assert (told["here"], told["silent"]) == (True, ("one/old",))
    told = it.world.wait(asker.ask("durable-delete", client="rover", name="d"))
    assert not told["here"] and told["silent"] == ("one/old",)
    it.world.start("old")
    it.world.run(5.0)
    told = it.world.wait(asker.ask("durable-delete", client="rover", name="d"))
    assert told["elsewhere"] == ("one/old",) and not told["silent"]
    with pytest.raises(UnknownSubscription, match="that can be reached"):
        it.world.wait(asker.ask("durable-delete", client="rover", name="d"))
    it.world.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_old_node_lets_go_though_the_first_word_of_it_is_lost(seed: int) -> None:
    it = Roaming(seed)
    it.publish(10)
    it.leave()
    it.publish(5)
    it.come("new")
    lost: list[RoutedMessage] = []
    handing = it.world["new"].recovery.handover
    assert handing is not None
    say = handing._messenger.send

    def lossy(message: RoutedMessage) -> None:
        if isinstance(message, Release) and not lost:
            lost.append(message)
        else:
            say(message)

    handing._messenger.send = lossy  # type: ignore[method-assign]
    read(it.world, it.readers[-1], seconds=5.0)
    assert lost
    it.publish(1)
    read(it.world, it.readers[-1], seconds=5.0)
    assert it.world["old"].durables.get("rover", "d") is None
    assert it.world["new"].durables.get("rover", "d").former == ""
    it.check()
    it.world.close()
