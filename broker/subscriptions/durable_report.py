"""Durable subscriptions in `status`, `top` and metrics: counts, and the largest lags."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import attrs

from broker.subscriptions.durable_subscriptions import DurableSubscriptions

#: Bounds metric labels, and look-ups in the log.
MAX_NAMED: Final = 20
STATES: Final = ("in-use", "away", "paused", "moved")


def build_durable_report(durables: DurableSubscriptions) -> dict[str, Any]:
    states = Counter(dict.fromkeys(STATES, 0))
    here = []
    for client, name, durable in durables.all():
        states[durables.state(client, name)] += 1
        if not durable.moved_to:
            here.append((client, name, durable.position.marks, durable.complete_after))
    named = [
        {
            "client": client,
            "name": name,
            "state": durables.state(client, name),
            **attrs.asdict(lag),
        }
        for client, name, lag in durables.lag_snapshot().find_furthest_behind(here, MAX_NAMED)
    ]
    return {
        "states": dict(states),
        "furthest_behind": named,
        "not_named": max(0, len(here) - MAX_NAMED),
    }
