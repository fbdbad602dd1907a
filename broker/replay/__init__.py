"""Replay: jobs that find archived events for many requests, in a child process (DESIGN 8)."""
