"""What the tables of the network say about its shape: who is where, and which way leads there."""
