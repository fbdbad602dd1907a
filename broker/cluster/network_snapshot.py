"""Snapshot of a node's network for `status`: a plain tree for JSON and msgpack.

Counts begin with the membership in the cluster, those of a link with the link.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from broker.cluster.address import NETWORK, Address, enclosing_units, unit_text
from broker.cluster.interest.contributions import PROFILE
from broker.cluster.interest.entries import SETTLED_KEY
from broker.cluster.neighbours import Neighbour
from broker.cluster.network import Network
from broker.cluster.network_state import NetworkState
from broker.cluster.tables.table import TableKey
from broker.cluster.traffic.core import Traffic


def network_snapshot(name: str, network: Network) -> dict[str, Any]:
    """Without a cluster the address is None, and fields of members are absent."""
    state, traffic = network.state, network.traffic
    udp_counts = network.neighbours.udp_counts
    snapshot: dict[str, Any] = {
        "name": name,
        "address": None,
        "links": [_link_snapshot(neighbour) for neighbour in network.neighbours],
        "udp": None if udp_counts is None else attrs.asdict(udp_counts),
        "group": network.group.snapshot(),
        "relayed": attrs.asdict(network.driver.relay_ingest.outcomes),
        "waiting_bytes": network.driver.relay_ingest.waiting_bytes,
        "wants": {
            "installed": {
                str(destination) if destination.node else unit_text(destination.unit): count
                for destination, count in sorted(
                    network.remote_interest.count_by_destination().items()
                )
            },
            "widened": network.remote_interest.widened,
        },
        "timers_late": round(network.timer_lag.average, 3),
        "slow": network.timer_lag.is_slow,
        "refused_greetings": dict(network.membership.failed_handshakes),
        "broken_links": dict(network.neighbours.broken_links),
        "forged": dict(network.signatures.rejected),
        "signed_twice": dict(network.signatures.signed_twice),
        "gone": network.gone.snapshot(),
    }
    if state is not None and traffic is not None:
        snapshot |= _state_snapshot(state)
        snapshot |= _traffic_snapshot(traffic)
        snapshot["denied"] = traffic.denied + network.driver.page_server.denied
    return snapshot


def _state_snapshot(state: NetworkState) -> dict[str, Any]:
    own, map_ = state.address, state.map
    reachable = map_.reachable()
    led = map_.led_units() - {NETWORK}
    profile = TableKey(PROFILE, own.node, own.node)
    return {
        "address": str(own),
        "leads": [unit_text(unit) for unit in sorted(led)],
        "leader": map_.leader(),
        "members": [
            {"node": name, "reachable": name in reachable, "draining": node.draining}
            for name, node in sorted(map_.members().items())
        ],
        "units": list(_unit_snapshots(state)),
        "profile": {
            "wants": len(state.tables.get(profile).keys() - {SETTLED_KEY}),
            "version": state.tables.version_of(profile, own.unit)[1],
        },
        "tables": {
            **attrs.asdict(state.tables.snapshot()),
            "counts": dict(state.tables.counts),
        },
        "map": attrs.asdict(map_.snapshot()),
    }


def _unit_snapshots(state: NetworkState) -> Iterator[dict[str, Any]]:
    """Yield the reachable units, nearest first."""
    own = state.address.unit
    destinations = set(state.destinations())
    for context in enclosing_units(own):
        if context == own:
            continue
        for child in sorted(state.map.reachable_units(context) - {own[len(context)]}):
            unit = (*context, child)
            yield {
                "unit": unit_text(unit),
                "wants_known": Address(unit, "") in destinations,
                "next_hop": state.map.next_hop_to_unit(unit),
                "gateways": [
                    {"near": str(link.own), "far": str(link.far), "cost": link.cost}
                    for link in sorted(state.map.gateways(unit))
                ],
            }


def _link_snapshot(neighbour: Neighbour) -> dict[str, Any]:
    corrections = neighbour.arq_counts
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


def _traffic_snapshot(traffic: Traffic) -> dict[str, Any]:
    frames = attrs.asdict(traffic.counts)
    # Part of the sum `denied`.
    del frames["denied"]
    unanswered = frames.pop("unanswered")
    arrivals = traffic.receiver
    return {
        "frames": frames,
        "unanswered": dict(unanswered),
        "arrivals": {**attrs.asdict(arrivals.counts), "waiting": arrivals.incomplete_origins},
    }
