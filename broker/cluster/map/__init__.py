"""Map of the network: nodes, links and routes, built from tables."""
