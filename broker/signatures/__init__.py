"""Signatures of origins: keys, signed batches of events, and the proof in each event's record."""
