"""Tables that nodes publish about themselves, replicated by flooding within a unit."""
