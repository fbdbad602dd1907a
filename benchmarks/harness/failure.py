"""Failure of a benchmark."""

from __future__ import annotations


class BenchmarkFailed(Exception):
    """A run without a result: an event was lost or rejected, or a timeout passed."""
