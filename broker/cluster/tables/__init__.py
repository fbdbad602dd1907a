"""Tables: what nodes tell each other of themselves, replicated by flooding within a unit."""
