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


def test_each_parent_of_a_mesh_has_its_counts_and_savings() -> None:
    b2 = {"name": "b2", "first": 7, "lost": 2, "saved_losses": 41, "saved_ms": 3_120.0}
    _, _, events, losses, seconds = stack_metrics(
        [
            {"name": "mspaces", "error": "", "published": 5},
            {"name": "mesh", "error": "", "published": 5, "parents": [b2]},
        ]
    )
    assert {(*s.labels.values(), s.value) for s in events.samples} == {
        ("mesh", "b2", "first", 7),
        ("mesh", "b2", "lost", 2),
        *(("mesh", "b2", name, 0) for name in ("duplicate", "repaired", "skipped")),
    }
    assert [(*s.labels.values(), s.value) for s in losses.samples] == [("mesh", "b2", 41)]
    assert [(*s.labels.values(), s.value) for s in seconds.samples] == [("mesh", "b2", 3.12)]
