"""Which queries a document's structure leaves possible: one automaton over label paths (F2, F3)."""
