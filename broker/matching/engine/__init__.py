"""The parts of the XML switch: from a batch of documents to the subscriptions that match (D20)."""
