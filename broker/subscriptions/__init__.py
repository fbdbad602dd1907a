"""Subscriptions: their lifecycle, durable state, and the interest that they make."""
