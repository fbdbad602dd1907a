"""What a node's network says of itself: a plain tree, as JSON and msgpack carry it.

It is what this node knows, not what is so elsewhere. Counts are since the node became a member of
its cluster, those of a link since that is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from broker.cluster.address import NETWORK, Address, contexts, unit_text
from broker.cluster.interest.contributions import PROFILE
from broker.cluster.interest.entries import SETTLED
from broker.cluster.neighbours import Neighbour
from broker.cluster.network import Network
from broker.cluster.network_state import Knowledge
from broker.cluster.tables.table import TableKey
from broker.cluster.traffic.core import Traffic


def report(name: str, network: Network) -> dict[str, Any]:
    """The network of this name as a node sees it. While the node is in no cluster its address is
    None, and nothing is said of what only members know."""
    knowledge, traffic = network.knowledge, network.traffic
    said: dict[str, Any] = {
        "name": name,
        "address": None,
        "links": [_link(neighbour) for neighbour in network.neighbours],
        "group": network.group.figures(),
        "relayed": attrs.asdict(network.driver.intake.outcomes),
        "waiting_bytes": network.driver.intake.waiting_bytes,
        "wants": {
            "installed": {
                str(destination) if destination.node else unit_text(destination.unit): count
                for destination, count in sorted(network.wants.per_destination().items())
            },
            "widened": network.wants.widened,
        },
        "timers_late": round(network.lateness.average, 3),
        "slow": network.lateness.is_slow,
        "refused_greetings": dict(network.membership.refused),
        "broken_links": dict(network.neighbours.broken),
    }
    if knowledge is not None and traffic is not None:
        said |= _organisation(knowledge)
        said |= _traffic(traffic)
        said["denied"] = traffic.denied + network.driver.pages.denied
    return said


def _organisation(knowledge: Knowledge) -> dict[str, Any]:
    own, map_ = knowledge.address, knowledge.map
    reachable = map_.reachable()
    led = map_.led() - {NETWORK}
    profile = TableKey(PROFILE, own.node, own.node)
    return {
        "address": str(own),
        "leads": [unit_text(unit) for unit in sorted(led)],
        "leader": map_.leader(),
        "members": [
            {"node": name, "reachable": name in reachable, "draining": node.draining}
            for name, node in sorted(map_.members().items())
        ],
        "units": list(_units(knowledge)),
        "profile": {
            "wants": len(knowledge.tables.get(profile).keys() - {SETTLED}),
            "version": knowledge.tables.stand(profile, own.unit)[1],
        },
        "tables": {
            **attrs.asdict(knowledge.tables.figures()),
            "counts": dict(knowledge.tables.counts),
        },
        "map": attrs.asdict(map_.figures()),
    }


def _units(knowledge: Knowledge) -> Iterator[dict[str, Any]]:
    """The units outside of the own cluster to which there is a way, the nearest first."""
    own = knowledge.address.unit
    destinations = set(knowledge.destinations())
    for context in contexts(own):
        if context == own:
            continue
        for child in sorted(knowledge.map.reachable_units(context) - {own[len(context)]}):
            unit = (*context, child)
            yield {
                "unit": unit_text(unit),
                "wants_known": Address(unit, "") in destinations,
                "next_hop": knowledge.map.next_hop_to_unit(unit),
                "gateways": [
                    {"near": str(link.own), "far": str(link.far), "cost": link.cost}
                    for link in sorted(knowledge.map.gateways(unit))
                ],
            }


def _link(neighbour: Neighbour) -> dict[str, Any]:
    corrections = neighbour.corrections
    return {
        "node": neighbour.name,
        "address": str(neighbour.node.address),
        "transport": neighbour.transport,
        "peer": neighbour.peer,
        "purpose": neighbour.purpose,
        "trusted": neighbour.trusted,
        "secure": neighbour.secure,
        "version": neighbour.version,
        "up": neighbour.up,
        "sent": neighbour.sent,
        "sent_bytes": neighbour.sent_bytes,
        "received": neighbour.received,
        "received_bytes": neighbour.received_bytes,
        "full": neighbour.full,
        "reconnections": neighbour.reconnections,
        "corrections": None if corrections is None else attrs.asdict(corrections),
    }


def _traffic(traffic: Traffic) -> dict[str, Any]:
    frames = attrs.asdict(traffic.counts)
    # Told with all else that was denied.
    del frames["denied"]
    arrivals = traffic.arrivals
    return {
        "frames": frames,
        "arrivals": {**attrs.asdict(arrivals.counts), "waiting": arrivals.waiting},
    }
