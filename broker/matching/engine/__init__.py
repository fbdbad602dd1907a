"""The parts of the default engine, from a batch of documents to matching subscriptions (D20)."""
