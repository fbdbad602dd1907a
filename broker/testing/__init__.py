"""Test doubles of the broker, also for programs built on it."""
