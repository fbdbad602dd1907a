"""How a benchmark ends that could not be measured."""

from __future__ import annotations


class BenchmarkFailed(Exception):
    """A run that proves nothing: something was lost, refused, or did not happen in time."""
