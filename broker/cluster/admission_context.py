"""What a member knows of its cluster when somebody wants to be let in."""

from __future__ import annotations

from collections.abc import Iterable

from broker.cluster.address import is_within
from broker.cluster.admission import Situation
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_messages import Alternative
from broker.cluster.network_state import Knowledge
from broker.cluster.neighbours import Neighbours


def situation_of(
    own: NodeDescriptor, knowledge: Knowledge, neighbours: Neighbours, *, behind: bool
) -> Situation:
    """As the map and the links tell it."""
    return Situation(
        own=own,
        members={**knowledge.map.members(), own.name: own},
        reachable=knowledge.map.reachable(),
        links={name: neighbours.count(name) for name in ("tcp", "udp")},
        degrees=knowledge.map.degrees(),
        others=list(_others(neighbours, knowledge)),
        linked={each.name: (each.node, each.peer) for each in neighbours if each.up},
        behind=behind,
    )


def _others(neighbours: Neighbours, knowledge: Knowledge) -> Iterable[Alternative]:
    for neighbour in neighbours:
        if not is_within(neighbour.node.address.unit, knowledge.address.unit):
            alternative = Alternative.of(neighbour.node)
            if alternative is not None:
                yield alternative
