"""Workloads: events, and any number of distinct queries, the same for a seed."""
