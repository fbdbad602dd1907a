"""Interface of IP multicast groups, for a transport that sends one datagram to several nodes.

An `ITransportContext` provides `IGroupContext`, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from broker.transport.stacks import GroupAddress

#: Takes datagrams of members, with those of strangers that copied one.
OnGroupDatagrams = Callable[[Sequence[bytes]], object]


class IGroup(Protocol):
    """A joined group."""

    def send(self, datagrams: Sequence[bytes]) -> object:
        """Send to all members. A member may get its own datagrams."""

    def close(self) -> object:
        """Leave the group."""


class IGroupContext(Protocol):
    """Services of a node for transports with groups."""

    def open_group(self, address: GroupAddress, on_datagrams: OnGroupDatagrams) -> IGroup:
        """Join a group, on one segment. The first byte of a datagram is below 128.

        Datagrams have a tag by the key of the network; others are dropped. Raises
        `ConfigurationError`.
        """
