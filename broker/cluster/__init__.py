"""The network of nodes: clusters and gateways, the map, profiles, and events between nodes."""
