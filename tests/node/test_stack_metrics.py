"""Metrics of stream transports."""

from __future__ import annotations

from broker.node.metrics import stack_metrics


def test_each_stack_has_its_counts_and_its_state() -> None:
    events, stopped = stack_metrics(
        [
            {"name": "mspaces", "error": "", "published": 5},
            {"name": "radar", "error": "RuntimeError: x", "published": 2, "received": 3},
        ]
    )
    assert {(*s.labels.values(), s.value) for s in events.samples} == {
        ("mspaces", "published", 5),
        ("radar", "published", 2),
        ("radar", "received", 3),
    }
    assert {(*s.labels.values(), s.value) for s in stopped.samples} == {
        ("mspaces", 0),
        ("radar", 1),
    }
