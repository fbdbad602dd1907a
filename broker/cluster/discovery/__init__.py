"""Where a node learns whom it may ask to join: its seeds (Q15, G22)."""
