"""Multicast by copies: one message for several peers, each on its own link."""

from broker.transport.multicast.layer import MulticastLayer

__all__ = ["MulticastLayer"]
