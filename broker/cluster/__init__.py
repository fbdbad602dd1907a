"""The network of nodes: clusters, gateways, the map, profiles, and how events flow between nodes."""
