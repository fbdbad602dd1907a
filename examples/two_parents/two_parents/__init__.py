"""Two small stacks: a link stack with stop-and-wait, and a transport with two parents a node."""
