"""Only a process with a node's key counts as a later process on a copy of its log."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.map.entries import NODE, PROCESS, PROOF, SELF
from broker.cluster.map.name_bindings import prove_descriptor
from broker.cluster.messages import Update
from broker.order_certificates.signing_key import SigningKey
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.bad_peer import BadPeer

OTHER = SigningKey.generate()


@pytest.mark.parametrize("signer", [None, OTHER])
@pytest.mark.parametrize(("kind", "cluster"), [(PROCESS, "evil"), (NODE, "one")])
def test_another_node_can_not_end_a_node_by_a_forged_later_process(
    kind: str, cluster: str, signer: SigningKey | None
) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "one")
        world.run(3.0)
        mallory = BadPeer(world, "a", cluster)
        scope = () if kind == PROCESS else ("one",)
        for attempt in range(3):
            later = world.network_of("a").membership.node
            later = later._replace(incarnation=later.incarnation + 1)
            entries: list[tuple[str, Any]] = [(SELF, later.to_plain())]
            if signer is not None:
                entries.append((PROOF, tuple(prove_descriptor(signer, later))))
            state = world.network_of("a").state
            assert state is not None
            mallory.send(
                Update(
                    *("a", ("one",), scope, state.tables.incarnation + 1, 0, 5 + attempt, 0),
                    *(((kind, "a", 1, tuple(entries)),), False),
                )
            )
            world.run(20.0)
        assert mallory.is_connected
        world["a"].event_log.check_available()
