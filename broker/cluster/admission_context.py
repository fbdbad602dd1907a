"""The admission context of a cluster member, from its map and its links."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from broker.cluster.address import is_within
from broker.cluster.admission import AdmissionContext
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_messages import Alternative
from broker.cluster.map.entries import NODE, PROCESS, PROOF, SELF
from broker.cluster.map.name_bindings import SignedDescriptor
from broker.cluster.neighbours import Neighbours
from broker.cluster.network_state import NetworkState
from broker.cluster.tables.core import Tables
from broker.cluster.tables.table import TableKey
from broker.errors import ProtocolError


def build_admission_context(
    own: NodeDescriptor, state: NetworkState, neighbours: Neighbours, *, is_overloaded: bool
) -> AdmissionContext:
    return AdmissionContext(
        own=own,
        members={**state.map.members(), own.name: own},
        reachable=state.map.reachable(),
        links={name: neighbours.count_links(name) for name in ("tcp", "udp")},
        degrees=state.map.link_counts(),
        other_clusters=list(_gateways(neighbours, state)),
        linked={each.name: (each.node, each.peer) for each in neighbours if each.up},
        is_overloaded=is_overloaded,
        described=partial(_signed_descriptors, state.tables),
    )


def _gateways(neighbours: Neighbours, state: NetworkState) -> Iterable[Alternative]:
    for neighbour in neighbours:
        if not is_within(neighbour.node.address.unit, state.address.unit):
            alternative = Alternative.from_node(neighbour.node)
            if alternative is not None:
                yield alternative


def _signed_descriptors(tables: Tables, name: str) -> Iterator[SignedDescriptor]:
    for kind in (NODE, PROCESS):
        entries = tables.get(TableKey(kind, name, name))
        if PROOF in entries:
            with suppress(ProtocolError):
                yield SignedDescriptor.from_plain(entries.get(SELF), entries[PROOF])
