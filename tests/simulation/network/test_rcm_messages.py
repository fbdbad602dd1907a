"""Messages of applications in nodes, in one order with the events of the group."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.config.stacks import DEFAULT_STACK
from broker.errors import UnknownStack
from broker.streams.messaging import Delivery, Item
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import INSTANCE
from broker.transport.message import Message, Outcome, Peer
from tests.simulation.network.test_rcm import Group


def test_messages_and_events_of_nodes_share_one_order() -> None:
    with deterministic(5), NetworkWorld(5) as world:
        group = Group(world, "hybrid", 3)
        boards, items = {}, dict[str, list[Item]]()
        for name in world.names:
            transports = world[name].transports
            assert transports is not None
            items[name] = []
            boards[name] = transports.open_client(INSTANCE, "board", items[name].append)
            for stack in (DEFAULT_STACK, "other"):
                with pytest.raises(UnknownStack):
                    transports.open_client(stack, "board")
        outcomes: list[Mapping[Peer, Outcome]] = []
        for number in range(6):
            for name, board in boards.items():
                message = Message(f"{name} {number}".encode(), destinations=board.sites)
                board.send(message).addCallback(outcomes.append)
            group.network.publish(2)
        entries = group.settle()
        assert outcomes == [dict.fromkeys(world.names, Outcome.SENT)] * 18
        delivered = {
            name: [(item.id, item.message.payload) for item in found if isinstance(item, Delivery)]
            for name, found in items.items()
        }
        assert len(delivered["n0"]) == 18
        assert delivered["n0"] == delivered["n1"] == delivered["n2"]
        # Numbers are those of messages and events together.
        for name in world.names:
            numbers = [id.number for id, _ in delivered["n0"] if id.site == name]
            numbers += [entry.number for entry in entries["n0"] if entry.site == name]
            assert sorted(numbers) == list(range(1, len(numbers) + 1))
        stamps = {
            name: [item.stamp for item in found if isinstance(item, Delivery)]
            for name, found in items.items()
        }
        assert stamps["n0"] == stamps["n1"] == stamps["n2"] == sorted(stamps["n0"])
