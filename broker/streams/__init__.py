"""Stream transports: plug-ins that carry the events of streams between nodes."""
