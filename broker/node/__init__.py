"""The node: composition, Twisted service, threads, status and metrics."""
