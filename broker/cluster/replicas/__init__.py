"""Copies of a node's log at a neighbour, for the case that its disk is lost (DESIGN 4)."""
