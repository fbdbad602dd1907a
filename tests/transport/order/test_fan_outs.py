"""Every variant keeps the five properties over each fan-out (RCM R33, R49)."""

from __future__ import annotations

import pytest

from broker.testing.order.checker import check
from broker.testing.order.fan_out import FAN_OUTS, SETTINGS
from broker.testing.order.simulation import Simulation
from broker.transport.order import VARIANTS
from tests.seeds import seeds

BATCH = 10


@pytest.mark.parametrize("first", seeds(1, 100))
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("fan_out", ["tree", "group"])
def test_a_variant_keeps_the_properties_over_a_fan_out(
    fan_out: str, variant: str, first: int
) -> None:
    for seed in range(first * BATCH, (first + 1) * BATCH):
        settings, make = SETTINGS[fan_out], FAN_OUTS[fan_out]
        run = Simulation(VARIANTS[variant], seed, settings=settings, fan_out=make).execute()
        violations = check(run)
        assert not violations, "\n".join([f"{variant}, seed {seed}:", *map(str, violations)])
