"""What a node asks of its upstream: the union of what its links want (D12, F8)."""
