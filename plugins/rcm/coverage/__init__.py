"""Reports of the sites of a group about the messages that they have logged and delivered."""
