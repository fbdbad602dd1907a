"""Event types: their DTDs, in several versions side by side (DESIGN 5; Mspaces M11-M18).

Text comes from a source (`sources`, `pointer`, `catalogue`), is made self-contained by `assembly`,
becomes a `Dtd` that validates and supplies defaults, and is kept by the `cache`.
"""
