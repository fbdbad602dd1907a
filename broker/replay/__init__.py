"""Replay: a child process that finds archived events for many requests at once (DESIGN 8)."""
