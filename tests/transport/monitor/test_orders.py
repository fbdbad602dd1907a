"""The variants of the order keep their properties over the real monitor (RCM R49).

The simulation of orders has a model of the monitor. Here the monitor takes its place.
"""

from __future__ import annotations

from typing import Any

import pytest

from broker.testing.order.checker import check
from broker.testing.order.simulation import Simulation
from broker.transport.order import VARIANTS
from tests.seeds import seeds
from tests.transport.monitor.monitored_link import MonitoredLink

#: Schedules of one test.
BATCH = 5
_LINK: Any = MonitoredLink


def check_batch(variant: str, first: int) -> None:
    for seed in range(first * BATCH, (first + 1) * BATCH):
        run = Simulation(VARIANTS[variant], seed, link=_LINK).execute()
        violations = check(run)
        assert not violations, "\n".join([f"{variant}, seed {seed}:", *map(str, violations)])
        assert any(run.deliveries.values())


@pytest.mark.parametrize("first", seeds(1, 100))
@pytest.mark.parametrize("variant", ["logical", "sequencer"])
def test_an_order_keeps_its_properties_over_the_monitor(variant: str, first: int) -> None:
    check_batch(variant, first)


@pytest.mark.parametrize("first", seeds(1, 2))
@pytest.mark.parametrize("variant", ["real-time", "hybrid"])
def test_an_order_by_time_keeps_its_properties_over_the_monitor(variant: str, first: int) -> None:
    """In few schedules: the checker gets the first reason of a suspicion only, and does not excuse
    one for silence that goes on as one for late messages."""
    check_batch(variant, first)
