"""Comparison of variants at whole nodes, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import INSTANCE
from broker.transport.message import Message
from plugins.rcm.comparison.site_comparison import SiteComparison
from tests.simulation.network.test_rcm import OUTAGES, VARIANTS, Group


def rows(group: Group) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in group.world.names:
        for row in group.network.state_of(name)["comparison"]["variants"]:
            yield name, row


def check_kept(group: Group) -> None:
    for name, row in rows(group):
        assert row["kept"], f"{name}: {row['variant']}: {row['verdict']}"
    for name in group.world.names:
        state = group.network.state_of(name)
        assert state["comparison"]["rejected"] == 0, state["peers"]


def equal_blocks(group: Group) -> dict[tuple[str, str, str], int]:
    return {
        (name, row["variant"], site["site"]): site["equal"]
        for name, row in rows(group)
        for site in row["sites"]
    }


@pytest.mark.parametrize("order", ["hybrid", "sequencer"])
def test_nodes_compare_all_variants_through_an_outage_and_a_kill(order: str) -> None:
    with deterministic(5), NetworkWorld(5) as world:
        group = Group(world, order, 3, compare=VARIANTS)
        network = group.network
        world.run(8.0)
        network.publish(25)
        world.run(4.0)
        before = equal_blocks(group)
        network.cut("n2")
        network.publish(3)
        world.run(10.0)
        network.heal("n2")
        world.run(10.0)
        network.kill("n1")
        world.start("n1")
        world.run(20.0)
        network.publish(25)
        world.run(4.0)
        after = equal_blocks(group)
        for (name, variant, site), count in after.items():
            if "n1" not in (name, site):
                assert count > before[name, variant, site] > 0, (name, variant, site)
            assert count > 0, (name, variant, site)
        group.settle()
        check_kept(group)
        late = {row["variant"]: row["late"] for name, row in rows(group) if name == "n2"}
        assert late["logical"] and late["real-time"] and late["hybrid"], late


def transport_of(world: NetworkWorld, name: str) -> Any:
    transports = world[name].transports
    assert transports is not None
    return next(each for each in transports if each.instance == INSTANCE)._transport


def test_messages_for_some_sites_have_their_places_at_all() -> None:
    with deterministic(4), NetworkWorld(4) as world:
        group = Group(world, "hybrid", 3, compare=VARIANTS)
        world.run(8.0)
        client = transport_of(world, "n0").open_client("anna", lambda item: None)
        for number in range(60):
            client.send(Message(b"hi", destinations=(f"n{number % 3}",)))
            world.run(0.1)
        world.run(4.0)
        for name, row in rows(group):
            assert row["messages"] == 60, (name, row)
        assert all(count > 0 for count in equal_blocks(group).values()), equal_blocks(group)
        check_kept(group)


def check_schedule(seed: int, order: str, kinds: tuple[str, ...]) -> None:
    with deterministic(seed), NetworkWorld(seed) as world:
        random = Random(seed)
        group = Group(world, order, 3 + seed % 2, compare=VARIANTS)
        for _ in range(12):
            group.disturb(random, kinds)
        group.settle()
        check_kept(group)


def test_outages_kills_and_full_disks_give_no_wrong_verdict() -> None:
    check_schedule(2, "hybrid", (*OUTAGES, "fill"))


def test_a_delivery_is_observed_before_the_node_may_take_it_back() -> None:
    with deterministic(1), NetworkWorld(1) as world:
        group = Group(world, "logical", 2, compare=VARIANTS)
        context = type(transport_of(world, "n0")._context)
        deliver, observe = context.deliver, SiteComparison.deliver
        calls: list[str] = []

        def record_delivery(*arguments: Any) -> None:
            calls.append("delivered")
            deliver(*arguments)

        def record_observation(*arguments: Any) -> Any:
            calls.append("observed")
            return observe(*arguments)

        with (
            patch.object(context, "deliver", record_delivery),
            patch.object(SiteComparison, "deliver", record_observation),
        ):
            group.network.publish(1)
            world.run(1.0)
        assert calls and calls == ["observed", "delivered"] * (len(calls) // 2)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20, 80))
@pytest.mark.parametrize("order", ["logical", "real-time", "hybrid"])
def test_long_schedules_give_no_wrong_verdict(order: str, seed: int) -> None:
    check_schedule(seed, order, (*OUTAGES, "fill"))
