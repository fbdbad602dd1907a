"""Shared parts of the benchmarks: processes, measurements, sessions, events and reports."""
