"""Merged streams: one order for events, from their linkage (Mspaces M30-M39, G14)."""
