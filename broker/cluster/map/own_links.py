"""Tables about this node: its descriptor, and its end of each link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from broker.cluster.address import UnitPath, common_prefix, unit_text
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.map.entries import (
    LINK,
    MAX_COST,
    NODE,
    PROCESS,
    PROOF,
    SELF,
    UNIT_LINKS,
    UnitLink,
)
from broker.cluster.map.name_bindings import prove_descriptor
from broker.order_certificates.signing_key import SigningKey


@attrs.frozen
class Publication:
    """Changes of a table that this node writes; None removes an entry."""

    kind: str
    subject: str
    scope: UnitPath
    changes: Mapping[str, Any | None]


@attrs.frozen
class _Link:
    far: NodeDescriptor
    transport: str
    cost: int
    clearance: int


class OwnLinks:
    def __init__(self, node: NodeDescriptor, key: SigningKey | None = None) -> None:
        """`key` signs the descriptor."""
        self._node = node
        self._key = key
        self._up: dict[str, _Link] = {}

    def set_node(self, node: NodeDescriptor) -> list[Publication]:
        """Publish the node's descriptor. Call it at the start, and after each change."""
        self._node = node
        publication = Publication(NODE, node.name, node.address.unit, self._describe())
        far = [link for link in self._up.values() if link.far.address.unit != node.address.unit]
        return [publication, *(each for link in far for each in self._publications(link, up=True))]

    def add_link(
        self, far: NodeDescriptor, transport: str, cost: int, clearance: int
    ) -> list[Publication]:
        """Publish a link that is up or has changed; `cost` is 1 to `MAX_COST`."""
        link = self._up[far.name] = _Link(far, transport, cost, clearance)
        return self._publications(link, up=True)

    def remove_link(self, name: str) -> list[Publication]:
        link = self._up.pop(name, None)
        return self._publications(link, up=False) if link else []

    def _publications(self, link: _Link, *, up: bool) -> list[Publication]:
        own, far = self._node, link.far
        entry = LINK + far.name
        if far.address.unit == own.address.unit:
            near = (link.cost, link.clearance, link.transport) if up else None
            return [Publication(NODE, own.name, own.address.unit, {entry: near})]
        context = common_prefix(own.address.unit, far.address.unit)
        value = None
        if up:
            value = UnitLink(
                unit=own.address.unit[len(context)],
                far_unit=far.address.unit[len(context)],
                own=own.address,
                far=far.address,
                # Other units can not see whether this node is draining (Q17).
                cost=MAX_COST if own.draining or far.draining else link.cost,
                clearance=min(link.clearance, own.clearance, far.clearance),
                endpoint=far.tcp,
            ).to_plain()
        return [
            Publication(UNIT_LINKS, unit_text(context), context, {entry: value}),
            Publication(PROCESS, own.name, context, self._describe()),
        ]

    def _describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {SELF: self._node.to_plain()}
        if self._key is not None:
            described[PROOF] = tuple(prove_descriptor(self._key, self._node))
        return described
