"""Subscriptions: their lifecycle, durable state, and the interest of a node."""
