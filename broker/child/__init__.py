"""Child processes of a node: the connection with one, and its supervisor."""
