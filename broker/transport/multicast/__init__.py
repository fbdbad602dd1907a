"""Multicast by copies: one message for several peers, each on the stack of its link."""

from broker.transport.multicast.channel import IMulticastReceiver, MulticastChannel
from broker.transport.multicast.core import Outcome

__all__ = ["IMulticastReceiver", "MulticastChannel", "Outcome"]
