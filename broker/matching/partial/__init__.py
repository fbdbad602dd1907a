"""Partial evaluation of queries on a shape: decided once for all documents of the shape."""
