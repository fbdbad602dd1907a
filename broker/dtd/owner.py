"""Owners of stored DTDs; each has a share of the store."""

from __future__ import annotations


def of_account(name: str) -> str:
    """Owner of a publisher's or administrator's texts; the name is empty without accounts."""
    return f"account {name}"


def of_node(name: str) -> str:
    """Owner of texts announced or sent by another node."""
    return f"node {name}"


def of_unit(name: str) -> str:
    """Owner of texts that the leader of a network unit announces."""
    return f"unit {name}"


def is_of_network(owner: str) -> bool:
    """True if a text came from other nodes only."""
    return owner.startswith(("node ", "unit "))
