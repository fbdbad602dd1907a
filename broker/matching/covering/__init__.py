"""Subscription covering: the interest of a node as few queries (D12, F8)."""
