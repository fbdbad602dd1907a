"""What a node keeps on its own disk: the event log, with marks and durable positions beside it."""
