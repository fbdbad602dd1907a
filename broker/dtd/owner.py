"""Owners of stored DTDs: each has a share of the store."""

from __future__ import annotations


def of_account(name: str) -> str:
    """A publisher or an administrator; without accounts the name is empty."""
    return f"account {name}"


def of_node(name: str) -> str:
    """Another node, which announces or sends texts."""
    return f"node {name}"


def of_unit(name: str) -> str:
    """A unit of the network, for which its leader announces texts."""
    return f"unit {name}"


def is_of_network(owner: str) -> bool:
    """Whether a text came from other nodes only."""
    return owner.startswith(("node ", "unit "))
