"""The archive: events of all nodes as Parquet files under one URI (DESIGN 8).

All functions block, so they run in a thread or process of their own. docs/archive.md describes the
layout byte by byte.
"""
