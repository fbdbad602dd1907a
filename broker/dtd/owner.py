"""Owners of stored DTDs; each has a share of the store."""

from __future__ import annotations


def of_account(name: str) -> str:
    """`name` is empty without accounts."""
    return f"account {name}"


def of_node(name: str) -> str:
    return f"node {name}"


def of_unit(name: str) -> str:
    return f"unit {name}"


def is_of_network(owner: str) -> bool:
    """Return True if a text came from other nodes only."""
    return owner.startswith(("node ", "unit "))
