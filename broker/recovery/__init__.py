"""Recovery: finds the events that a client missed and delivers them in order (DESIGN 8)."""
