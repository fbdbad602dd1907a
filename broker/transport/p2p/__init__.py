"""Reliable FIFO between two ends, once only, across reconnections (RCM R29-R32, K21)."""

from broker.transport.p2p.layer import P2PLayer

__all__ = ["P2PLayer"]
