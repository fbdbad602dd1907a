"""The five properties of an order as rules over the record of a run."""
