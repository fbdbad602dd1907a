"""Partial evaluation: what of a query is decided by a shape, once for all its documents."""
