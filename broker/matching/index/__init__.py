"""Predicate index: find the members of a template that match a batch of values (DESIGN 6, F5)."""
