"""Whole nodes as the sites of a group, in virtual time: one transcript at all sites."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from broker.cluster import ordered_ranges
from broker.config.stacks import StackInstance
from broker.errors import ConfigurationError
from broker.event.order_entry import OrderEntry
from broker.streams.connection_links import ConnectionLinks
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from tests.seeds import further_cases
from tests.simulation.network.rcm_transcripts import check_transcripts

VARIANTS = ("logical", "sequencer", "real-time", "hybrid")


class Group:
    """Sites `n0`, `n1`, ..., each with a publisher; some have subscriptions."""

    def __init__(
        self,
        world: NetworkWorld,
        order: str,
        count: int,
        fan_out: str = "copies",
        *,
        compare: tuple[str, ...] = (),
    ) -> None:
        link_options = RcmLinkSettings(
            fan_out=fan_out, group="239.1.2.3:9000", group_interface="lo"
        )
        self.world = world
        self.order = order
        sites = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(count)}
        self.network = TransportNetwork(
            world,
            (rcm_transport, rcm_links),
            lambda _: StackInstance(
                INSTANCE,
                use="rcm",
                options=RcmOptions(sites=sites, order=order, compare=compare),
                link_options=link_options,
            ),
        )
        self.network.add_nodes(count)
        for name in world.names:
            self.network.add_publisher(name)
        for name in world.names[:2]:
            self.network.subscribe(f"all-{name}", name, durable="d")
        # The full disks of a schedule lose commits.
        self.lost_commits = False

    def settle(self, patience: float = 40.0) -> dict[str, list[OrderEntry]]:
        """Wait for all events, and check guarantees and transcripts.

        After `patience` seconds sites without a subscription have all events, too.
        """
        self.world.heal_transports()
        self.network.publish(3)
        self.network.settle(120.0)
        self.world.run(patience)
        self.network.check_states()
        return check_transcripts(
            self.world, self.order, self.world.names, lost_commits=self.lost_commits
        )

    def disturb(self, random: Random, kinds: Sequence[str]) -> None:
        """Do one thing to the group, while it publishes."""
        network, world = self.network, self.world
        name, other = random.sample(world.names, 2)
        match random.choice(kinds):
            case "publish":
                network.publish(random.choice((1, 3, 8)))
            case "burst":
                # Their commits are runs.
                for publisher in network.publishers:
                    for altitude in range(random.choice((5, 30))):
                        publisher.publish(CARRIED, altitude)
            case "cut":
                network.cut_datagrams(name, other)
            case "heal":
                world.heal_transports()
            case "isolate":
                network.cut(name)
                network.publish(2)
                world.run(random.choice((0.3, 8.0, 20.0)))
                network.heal(name)
            case "kill":
                network.kill(name)
                network.publish(random.choice((0, 2)))
                world.run(random.choice((0.0, 1.0, 8.0)))
                world.start(name)
            case "fill":
                self.lost_commits = True
                world.set_disk_full(name, True)
                network.publish(2)
                world.run(random.choice((0.5, 3.0)))
                world.set_disk_full(name, False)
        world.run(random.choice((0.0, 0.1, 1.0, 6.0)))


@pytest.mark.parametrize("order", VARIANTS)
def test_sites_that_are_well_connected_log_one_sequence(order: str) -> None:
    with deterministic(7), NetworkWorld(7) as world:
        group = Group(world, order, 3)
        world.run(2.0)
        for _ in range(10):
            group.network.publish(3)
        first, *others = group.settle().values()
        assert not any(entry.is_late for entry in first)
        for other in others:
            assert [entry.id for entry in other] == [entry.id for entry in first]


def test_a_site_that_starts_much_later_gets_the_history() -> None:
    with deterministic(8), NetworkWorld(8) as world:
        group = Group(world, "hybrid", 3)
        group.network.kill("n2")
        world.lose_disk("n2")
        group.network.publishers.pop()
        group.network.publish(5)
        world.run(1_500.0)
        world.start("n2")
        group.settle()


def test_a_site_that_sends_wrong_bytes_is_told_as_disconnected_and_returns() -> None:
    with deterministic(5), NetworkWorld(5) as world:
        group = Group(world, "hybrid", 3)
        world.run(2.0)
        transports = world["n0"].transports
        assert transports is not None
        transport: Any = next(each for each in transports if each.instance == INSTANCE)._transport
        transport.messages_received(transport._sites._peers["n1"], [b"\xff"])

        def status() -> tuple[str, str]:
            sites = group.network.state_of("n0")["peers"]
            (found,) = [each for each in sites if each["site"] == "n1"]
            return found["status"], found.get("reason", "")

        assert status()[0] == "disconnected"
        assert transport._group.core.connected == {"n2"}
        assert transport.snapshot()["rejected"] == 1
        world.run_until(lambda: status()[0] == "connected")
        group.network.publish(5)
        group.settle()


def test_a_site_whose_name_does_not_resolve_is_tried_again() -> None:
    with deterministic(6), NetworkWorld(6) as world:
        group = Group(world, "hybrid", 3)
        group.network.kill("n0")
        failures = 2

        def fail_at_first(links: Any, address: tuple[str, int]) -> Any:
            nonlocal failures
            if failures:
                failures -= 1
                raise ConfigurationError("no such host")
            return add_peer(links, address)

        add_peer = ConnectionLinks.add_peer
        with patch.object(ConnectionLinks, "add_peer", fail_at_first):
            world.start("n0")
            world.run(10.0)
        assert failures == 0
        group.network.check_states()
        group.settle()


def check_schedule(
    seed: int,
    order: str,
    kinds: Sequence[str],
    steps: int = 12,
    fan_out: str = "copies",
    patience: float = 40.0,
) -> None:
    with deterministic(seed), NetworkWorld(seed) as world:
        random = Random(seed)
        group = Group(world, order, 3 + seed % 2, fan_out)
        for _ in range(steps):
            group.disturb(random, kinds)
        group.settle(patience)


OUTAGES = ("publish", "publish", "cut", "heal", "isolate", "kill")


@pytest.mark.parametrize(
    ("order", "seed"),
    [
        ("logical", 3),
        ("real-time", 11),
        ("hybrid", 3),
        *further_cases(("logical", 11), ("real-time", 3), ("hybrid", 11)),
    ],
)
def test_outages_and_kills_leave_one_transcript(order: str, seed: int) -> None:
    check_schedule(seed, order, (*OUTAGES, "burst", "burst"))


@pytest.mark.parametrize("fan_out", ["tree", "group"])
def test_outages_and_kills_leave_one_transcript_over_each_fan_out(fan_out: str) -> None:
    check_schedule(3, "hybrid", OUTAGES, fan_out=fan_out)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(21, 61, 2))
@pytest.mark.parametrize("fan_out", ["tree", "group"])
def test_long_schedules_leave_one_transcript_over_each_fan_out(fan_out: str, seed: int) -> None:
    check_schedule(seed, "hybrid", (*OUTAGES, "fill"), fan_out=fan_out)


@pytest.mark.parametrize("seed", [1, *further_cases(6)])
def test_full_disks_leave_one_transcript(seed: int) -> None:
    check_schedule(seed, "hybrid", (*OUTAGES, "fill"))


@pytest.mark.parametrize(
    ("order", "seed"), [("sequencer", 33), ("hybrid", 1), *further_cases(("sequencer", 11))]
)
def test_a_full_queue_of_events_leaves_one_transcript(
    order: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events behind refused ones are logged before they have a number. They come again, a few in
    each answer of their origin."""
    monkeypatch.setattr(ordered_ranges, "MOST_WAITING_BYTES", 4_500)
    check_schedule(seed, order, (*OUTAGES, "burst"), patience=130.0)


@pytest.mark.parametrize("seed", [11, *further_cases(4)])
def test_a_sequencer_gives_each_message_one_place_in_the_end(seed: int) -> None:
    """In the first schedule two sequencers number most messages."""
    check_schedule(seed, "sequencer", OUTAGES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20, 120))
@pytest.mark.parametrize("order", VARIANTS)
def test_long_schedules_leave_one_transcript(order: str, seed: int) -> None:
    check_schedule(seed, order, (*OUTAGES, "fill", "burst"))
