from __future__ import annotations

import pytest

from broker.limit_registry import LimitRegistry


def test_a_limit_shows_present_values_and_how_often_it_was_reached() -> None:
    registry, queue, bound = LimitRegistry(), [1, 2], [4]
    limit = registry.add(
        "queue", setting="queue.events", bound=lambda: bound[0], used=lambda: len(queue)
    )
    queue.append(3)
    bound[0] = 3
    limit.count_reached()
    limit.count_reached(2)
    assert registry.snapshot() == [
        {
            "name": "queue",
            "per": "node",
            "setting": "queue.events",
            "used": 3,
            "bound": 3,
            "reached": 3,
        }
    ]


def test_two_limits_can_not_share_a_name() -> None:
    registry = LimitRegistry()
    registry.add("queue", bound=lambda: 1, used=lambda: 0)
    with pytest.raises(ValueError, match="queue"):
        registry.add("queue", bound=lambda: 1, used=lambda: 0)
