"""The network of nodes: clusters, gateways, the map, interest, and events between nodes."""
