"""The stack of a cluster's nodes and their gateways: socket - p2p - multicast (DESIGN 7)."""
