"""Ingest: published events are matched, authorised and appended to the log (DCP D19)."""
