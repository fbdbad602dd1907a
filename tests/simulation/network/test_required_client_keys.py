"""A node can refuse durable subscriptions to clients without a key."""

from __future__ import annotations

import attrs

from broker.errors import NotOwner
from tests.simulation.network.roaming import Roaming


def test_a_node_can_require_keys_of_clients_with_durable_subscriptions() -> None:
    roaming = Roaming(1, key_seed=b"")
    world, process = roaming.world, roaming.world._processes["old"]
    roaming.publish(5)
    roaming.kill_process()
    world.kill("old")
    identity = attrs.evolve(process.settings.identity, require_client_key=True)
    process.settings = attrs.evolve(process.settings, identity=identity)
    world.start("old")
    world.run(5.0)
    for node, seed in (("old", b""), ("new", b"x" * 32)):
        # One that has no key, and one that a member may have invented.
        refused_reader = roaming.start_process(node, key_seed=seed)
        world.run(5.0)
        assert isinstance(refused_reader.error, NotOwner), node
        world.kill_client(roaming.readers.pop().client)
    durable = world["old"].durables.get("rover", "d")
    assert durable is not None and not durable.moved_to
    for node in ("old", "new"):
        roaming.start_process(node, key_seed=b"s" * 32)
        roaming.publish(5)
        roaming.kill_process()
    roaming.check()
    world.close()
