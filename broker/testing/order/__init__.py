"""Simulation and checker of orders, for tests."""
