"""What a DTD can produce: queries that it can never satisfy, and what a new version does (X10)."""
