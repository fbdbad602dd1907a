"""Recovery: what a client missed, found in the archive and given to it in order (DESIGN 8)."""
