"""Multicast (RCM R33): copies for several peers, or bodies on shared ways."""

from broker.transport.multicast.bounds import Bounds
from broker.transport.multicast.layer import GroupLayer, MulticastLayer, TreeLayer
from broker.transport.multicast.sharing_core import GROUP

__all__ = ["GROUP", "Bounds", "GroupLayer", "MulticastLayer", "TreeLayer"]
