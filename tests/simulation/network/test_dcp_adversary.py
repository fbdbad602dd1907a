"""A malicious router beside an honest one, in a mesh whose nodes have two parents."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

import attrs
import pytest

from broker.config.stacks import StackInstance
from broker.event.record import proof_of, with_proof
from broker.streams.contract import CarriedEvent
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import CARRIED, INSTANCE, PATTERN, TransportNetwork
from plugins.dcp.event_range import EventRange
from plugins.dcp.plugin import dcp_transport
from plugins.dcp.sequences import SequenceState
from plugins.dcp.stack import DcpLinkOptions, dcp_links
from tests.seeds import seeds
from tests.simulation.network.adversary import Attack, change_document
from tests.simulation.network.attacked_network import AttackedNetwork
from tests.simulation.network.dcp_mesh import LEAVES, ConfirmingMesh, MeshCase
from tests.simulation.network.transport_adversary import attacked

#: A parent of both leaves, as n3 is.
MALICIOUS = "n2"
HONEST = ("n0", "n1", "n3", "n4", "n5")


@attrs.define
class MeshAttack(Attack):
    """Changes of the ranges that a router forwards, and of the packets on its links."""

    is_active: bool = False

    def alter_range(self, range_: EventRange) -> EventRange:
        """Return the range that is sent in place of one."""
        return range_

    def alter_packet(self, data: bytes) -> Sequence[bytes]:
        """Return the packets that are sent in place of one."""
        return [data]

    def alter_message(self, data: bytes, peer: Hashable) -> Sequence[bytes]:
        if not self.is_active:
            return [data]
        altered = self.alter_packet(data)
        self.count += list(altered) != [data]
        return altered

    def replace_events(self, range_: EventRange, events: Sequence[CarriedEvent]) -> EventRange:
        self.count += len(range_.events) > 0
        return EventRange.of_events(range_.previous, range_.upto, events)


class WrongSignatures(MeshAttack):
    """Forwards other documents than their origin has signed."""

    def alter_range(self, range_: EventRange) -> EventRange:
        return self.replace_events(range_, [self._forge(each) for each in range_.events])

    def _forge(self, event: CarriedEvent) -> CarriedEvent:
        forged = event._replace(document=change_document(event.document))
        proof = self.random.choice((b"", proof_of(event.record)))
        return forged._replace(record=with_proof(event.record, proof))


@attrs.define
class Replays(MeshAttack):
    """Sends earlier packets again, and earlier events under later places."""

    recorded: list[bytes] = attrs.field(factory=list)
    events: list[CarriedEvent] = attrs.field(factory=list)

    def alter_packet(self, data: bytes) -> Sequence[bytes]:
        self.recorded = [*self.recorded[-100:], data]
        return [data, *self.random.choices(self.recorded, k=2)]

    def alter_range(self, range_: EventRange) -> EventRange:
        self.events = [*self.events[-100:], *range_.events]
        earlier = [self.random.choice(self.events)._replace(mark=e.mark) for e in range_.events]
        return self.replace_events(range_, earlier)


class Drops(MeshAttack):
    """Drops half of its packets."""

    def alter_packet(self, data: bytes) -> Sequence[bytes]:
        return [data] if self.random.random() < 0.5 else []


class Silence(MeshAttack):
    """Sends nothing."""

    def alter_packet(self, data: bytes) -> Sequence[bytes]:
        return []


def take_over(network: TransportNetwork, attack: MeshAttack) -> None:
    """Let a router change the ranges that it forwards."""
    transports = network.world[MALICIOUS].transports
    assert transports is not None
    (instance,) = [each for each in transports if each.instance == INSTANCE]
    children: Any = instance._transport._router.children  # type: ignore[union-attr]
    forward = children.forward

    def forward_altered(
        state: SequenceState, range_: EventRange, links: Sequence[frozenset[Hashable]]
    ) -> None:
        altered = attack.alter_range(range_)
        forward(state, altered, links[: len(altered.events)])

    children.forward = forward_altered


@contextmanager
def attacked_mesh(
    seed: int, kind: type[MeshAttack], case: MeshCase
) -> Iterator[tuple[AttackedNetwork, TransportNetwork]]:
    with deterministic(seed), NetworkWorld(seed) as world:
        attack = kind(Random(seed))

        def make_stack(number: int) -> StackInstance:
            return StackInstance(
                *(INSTANCE, "dcp", "dcp", "mspaces"),
                options=case.node_options(number),
                link_options=DcpLinkOptions(),
            )

        network = TransportNetwork(
            world, attacked((dcp_transport, dcp_links), MALICIOUS, attack), make_stack
        )
        for number in range(6):
            name = f"n{number}"
            world.add(name, "one", start=False, join=world.names[:2], verify="always")
            network.set_carried(name, True)
            world.start(name)
        world.run(6.0)
        attacked_network = AttackedNetwork(world, MALICIOUS, attack, HONEST, ("n0", "n5"), CARRIED)
        world.run_until(lambda: all(len(case.parents(network, each)) == 2 for each in LEAVES))
        take_over(network, attack)
        attack.is_active = True
        yield attacked_network, network


@pytest.mark.parametrize("kind", [WrongSignatures, Replays, Drops, Silence])
@pytest.mark.parametrize("case", [MeshCase, ConfirmingMesh])
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_other_nodes_have_the_guarantees(
    seed: int, case: type[MeshCase], kind: type[MeshAttack]
) -> None:
    with attacked_mesh(seed, kind, case()) as (network, transports):
        network.publish()
        network.check()
        transports.check_states(HONEST)
        senders = network.rejected_senders()
        if kind is WrongSignatures:
            # Honest routers forward it, too: the mesh can not name the sender.
            assert senders == {f"the transport of {PATTERN}"}
            alarms = [each for name in LEAVES for each in transports.state_of(name)["alarms"]]
            assert f"the copies of {MALICIOUS} and n3 differ" in " ".join(alarms)
