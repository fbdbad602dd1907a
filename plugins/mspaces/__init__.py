"""The stack of nodes of a cluster and their gateways: socket - p2p - multicast (DESIGN 7)."""
