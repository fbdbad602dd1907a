"""The stack of groups whose sites see one order: socket - monitor - p2p - multicast - order."""
