"""The process beside a node that carries its log into the archive (DESIGN 8)."""
