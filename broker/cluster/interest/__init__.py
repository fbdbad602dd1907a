"""Profiles: what nodes and units want, told to all who may have it (Mspaces M42, G7, G13)."""
