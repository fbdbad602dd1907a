"""Events between nodes: what each origin sends to whom, and what each node has of each origin."""
