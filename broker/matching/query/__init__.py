"""XPath 1.0 front end: parsing, static types, cost limits, and the semantics of libxml2."""
