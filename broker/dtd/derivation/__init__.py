"""DTDs derived from sample documents, or from an XML Schema."""
