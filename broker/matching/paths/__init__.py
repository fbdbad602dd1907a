"""Structural filtering: queries that a document's label paths leave possible (F2, F3)."""
