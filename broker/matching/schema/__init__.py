"""Schema satisfiability analysis: queries that a DTD can never match, and effects of new versions
(X10).
"""
