"""Live comparison of the variants of the order, on the messages of one group."""
