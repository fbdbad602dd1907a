"""Content routing: which events are valid, and which subscriptions they match."""
