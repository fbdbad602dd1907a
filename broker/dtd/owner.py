"""Owners of shares of the DTD store."""

from __future__ import annotations


def of_account(name: str) -> str:
    """Return the owner of an account's texts; `name` is empty without accounts."""
    return f"account {name}"


def of_node(name: str) -> str:
    """Return the owner of texts that another node sent."""
    return f"node {name}"


def of_unit(name: str) -> str:
    """Return the owner of texts that a unit's leader announces."""
    return f"unit {name}"


def is_of_network(owner: str) -> bool:
    """True if other nodes alone sent the text."""
    return owner.startswith(("node ", "unit "))
