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


@pytest.mark.parametrize("first", seeds(2, 400))
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_keeps_the_properties_over_the_monitor(variant: str, first: int) -> None:
    for seed in range(first * BATCH, (first + 1) * BATCH):
        run = Simulation(VARIANTS[variant], seed, link=_LINK).execute()
        violations = check(run)
        assert not violations, "\n".join([f"{variant}, seed {seed}:", *map(str, violations)])
        assert any(run.deliveries.values())
