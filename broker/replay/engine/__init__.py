"""What runs a replay: events of the archive against all that is asked at once (DESIGN 8)."""
