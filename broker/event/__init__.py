"""Events: envelope, EventId, place, stream names, reading and writing."""
