"""How a query is answered, and why an event matches it or does not (checklist N7, F6)."""
