from __future__ import annotations

from typing import Any

import attrs
import pytest

from broker.testing.simulated_network import NetworkWorld


def rename(world: NetworkWorld, key: str, name: str) -> None:
    process = world._processes[key]
    process.settings = attrs.evolve(
        process.settings, node=attrs.evolve(process.settings.node, name=name)
    )
    process.start()


def test_distant_nodes_with_the_same_name_do_not_flood() -> None:
    with NetworkWorld(1) as world:
        world.add("x", "one")
        world.add("b1", "two", gateways=["x"])
        world.add("b2", "three", gateways=["b1"])
        world.add("y", "four", gateways=["b2"], start=False)
        world.run(5.0)
        rename(world, "y", "x")
        world.run(10.0)
        link = world.network_of("b1").neighbours.get("b2")
        assert link is not None
        before = link.sent + link.received
        world.run(10.0)
        # With backoff.
        assert link.sent + link.received - before < 200


def test_nodes_with_the_same_name_at_one_gateway_dial_with_backoff(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with NetworkWorld(1) as world:
        world.add("b", "two")
        world.add("x", "one", gateways=["b"])
        world.add("y", "four", gateways=["b"], start=False)
        world.run(5.0)
        rename(world, "y", "x")
        world.run(30.0)
        accepted: list[Any] = []
        network = world.network_of("b")
        linked = network.connection_accepted

        def record(*args: Any) -> None:
            accepted.append(args)
            linked(*args)

        monkeypatch.setattr(network, "connection_accepted", record)
        world.run(60.0)
        # The other process dials with backoff.
        assert 0 < len(accepted) < 10
