"""Event frames between nodes: sending, forwarding and receiving them."""
