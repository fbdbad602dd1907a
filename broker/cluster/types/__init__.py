"""Event types in the network: announcements in tables, and DTDs fetched in advance."""
