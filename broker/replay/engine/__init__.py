"""Engines that run replay jobs: one pass over the archive for many requests (DESIGN 8)."""
