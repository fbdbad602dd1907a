"""Validation of events, and matching with subscriptions."""
