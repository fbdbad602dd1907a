"""The members of a query template, found by the values of a batch (DESIGN 6, F5)."""
