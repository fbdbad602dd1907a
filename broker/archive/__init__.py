"""The archive: all events of all nodes as Parquet, under one URI (DESIGN 8).

Everything in here blocks: it is for a thread or a process of its own. docs/archive.md has the
layout byte by byte.
"""
