"""Order certificates: signed roots of blocks of an order, and their proofs for clients."""
