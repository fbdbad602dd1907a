"""Ingest: events from publishers, matched, judged and appended to the log (DCP D19)."""
