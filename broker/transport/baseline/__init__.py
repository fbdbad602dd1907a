"""Plain connections in the place of p2p, for comparison (RCM R41)."""

from broker.transport.baseline.layer import PlainLayer

__all__ = ["PlainLayer"]
