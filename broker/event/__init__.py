"""What flows: events, their identity, their places, and the names of streams."""
