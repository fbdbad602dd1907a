"""Merged streams: the linkage of events resolved into one order (Mspaces M30-M39, G14)."""
