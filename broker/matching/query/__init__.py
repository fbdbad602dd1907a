"""Queries: an XPath 1.0 front end of our own, with the meaning that libxml2 gives."""
