"""Multicast (RCM R33): copies for several peers, or bodies on shared ways."""

from broker.transport.multicast.layer import MulticastLayer, TreeLayer

__all__ = ["MulticastLayer", "TreeLayer"]
