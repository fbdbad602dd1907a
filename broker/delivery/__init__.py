"""Delivery: logged events to sessions with matching subscriptions (DCP D21)."""
