"""A member node that claims a client with the highest incarnation."""

from __future__ import annotations

import msgspec

from broker.cluster.traffic.messages import RoutedMessage
from broker.errors import IncarnationAhead
from broker.recovery.messages import TakeOver
from tests.simulation.network.roaming import Roaming


def test_a_member_can_not_claim_a_client_for_ever() -> None:
    roaming = Roaming(1, key_seed=b"")
    world = roaming.world
    handover = world["new"].recovery.handover
    assert handover is not None
    send = handover._messenger.send

    def send_highest(message: RoutedMessage, attempt: int = 0) -> None:
        if isinstance(message, TakeOver):
            message = msgspec.structs.replace(message, incarnation=2**63 - 1)
        send(message, attempt)

    handover._messenger.send = send_highest  # type: ignore[method-assign]
    thief = roaming.start_process("new")
    world.run(5.0)
    assert isinstance(thief.error, IncarnationAhead)
    assert world["old"].durables.get("rover", "d") is not None
    assert list(world["old"].acceptor.sessions)[-1].identity.client_id == "rover"
    world.close()
