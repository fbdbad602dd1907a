"""Tracing: how a query is answered, and the path of one event through the network (N7)."""
