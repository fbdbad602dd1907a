"""Explain: how the engine answers a query, and why an event matches or not (checklist N7, F6)."""
