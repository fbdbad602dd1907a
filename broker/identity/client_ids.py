"""Patterns of client ids."""

from __future__ import annotations


def matches_client_id(pattern: str, client_id: str) -> bool:
    """In a pattern `*` stands for any or no characters."""
    first, *rest = pattern.split("*")
    if not rest:
        return client_id == first
    *middle, last = rest
    at, end = len(first), len(client_id) - len(last)
    if at > end or not client_id.startswith(first) or not client_id.endswith(last):
        return False
    for piece in middle:
        # The earliest match leaves most room: no backtracking.
        found = client_id.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
