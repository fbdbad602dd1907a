"""Replicas of a node's log at a neighbour, in case its disk is lost (DESIGN 4)."""
