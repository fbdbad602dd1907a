"""The network of nodes: clusters, gateways, the map, profiles, and the flow of events between nodes."""
