"""A node's event log on its own disk, with de-duplication marks and durable positions."""
