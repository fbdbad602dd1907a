"""The interface between the IP multicast groups of a router and the node around it."""

from __future__ import annotations

from typing import Protocol


class IGroupHost(Protocol):
    """Groups have numbers below `plugins.dcp.control.MOST_GROUPS`."""

    def open_group(self, number: int) -> bool:
        """Join a group. Return False if that is not possible. Each success needs `close_group`."""

    def close_group(self, number: int) -> object:
        """Leave a group, unless it is open for another use."""

    def send_to_group(self, number: int, packets: list[bytes]) -> object:
        """Send packets to an open group."""
