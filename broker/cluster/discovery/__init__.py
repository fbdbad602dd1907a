"""Discovery of seeds: nodes that this node can ask to join (Q15, G22)."""
