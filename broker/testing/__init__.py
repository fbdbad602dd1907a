"""Fakes that are shipped, so that programs on top of the broker can be tested like it is itself."""
