"""Interest of nodes and units, published to all possible senders (Mspaces M42, G7, G13)."""
