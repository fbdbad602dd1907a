"""The messages between a client and its node."""
