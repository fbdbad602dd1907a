"""Descriptions of the multicast layers: one contract, with different ways of a message."""

from __future__ import annotations

import os
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.layer import ILayer, Property
from broker.transport.multicast.bounds import Bounds
from broker.transport.multicast.core import MulticastCore
from broker.transport.multicast.group_core import GroupCore
from broker.transport.multicast.tree_core import TreeCore
from broker.transport.multicast.wire import KEY_BYTES


@implementer(ILayer)
@attrs.frozen
class MulticastLayer:
    """A copy of each message for each destination (RCM R11, R33). It adds no bytes."""

    name: ClassVar[str] = "multicast"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset(
        {Property.FRAMED, Property.FIFO, Property.OUTAGE_NOTICE}
    )
    provides: ClassVar[frozenset[Property]] = frozenset(
        {Property.ONE_TO_MANY, Property.SENDER_ORDER}
    )
    breaks: ClassVar[frozenset[Property]] = frozenset()

    def create_core(self) -> MulticastCore:
        return MulticastCore()


def _make_key() -> bytes:
    return os.urandom(KEY_BYTES)


@attrs.frozen(kw_only=True)
class _SharingLayer:
    """Each link keeps the place of a message. Peers are names that are the same at all ends."""

    node: str
    """Name of this end."""
    key: bytes = attrs.field(factory=_make_key, repr=False)
    """Differs after each start."""
    bounds: Bounds = Bounds()

    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = MulticastLayer.requires | {Property.RESUMABLE}
    provides: ClassVar[frozenset[Property]] = MulticastLayer.provides
    breaks: ClassVar[frozenset[Property]] = frozenset()


@implementer(ILayer)
@attrs.frozen(kw_only=True)
class TreeLayer(_SharingLayer):
    """A message goes to few peers, which pass it on to the others (RCM R33)."""

    name: ClassVar[str] = "multicast-tree"

    def create_core(self) -> TreeCore:
        return TreeCore(self.node, self.key, self.bounds)


@implementer(ILayer)
@attrs.frozen(kw_only=True)
class GroupLayer(_SharingLayer):
    """A message goes once to the peer `sharing_core.GROUP`: an IP multicast group (RCM R33)."""

    name: ClassVar[str] = "multicast-group"

    def create_core(self) -> GroupCore:
        return GroupCore(self.node, self.key, self.bounds)
