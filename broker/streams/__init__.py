"""Parts that all transports of streams share (issue 20)."""
