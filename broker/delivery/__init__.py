"""Delivery: logged events to the sessions whose subscriptions match (DCP D21)."""
