"""Event types and their DTDs, several versions at once (DESIGN 5; Mspaces M11-M18).

A text comes from a source (`catalogue_source`, `pointer_source`), `assembly` makes it
self-contained, `Dtd` validates events with it, and `cache` holds it.
"""
