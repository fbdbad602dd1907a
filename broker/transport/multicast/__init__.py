"""Multicast as copies to peers: one message to several, each by the stack of its link."""

from broker.transport.multicast.channel import IMulticastReceiver, MulticastChannel
from broker.transport.multicast.core import Outcome

__all__ = ["IMulticastReceiver", "MulticastChannel", "Outcome"]
