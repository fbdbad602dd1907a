"""A failing seed is shrunk to a short schedule, with what happened (A10)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.testing.order.schedule import Timed
from broker.testing.order.simulation import Simulation
from broker.testing.order.trace import shrink
from broker.testing.order.violation import Property
from broker.transport.order import VARIANTS
from tests.transport.order.mutants import DeliversBeyondReserved, Mutant

#: One that fails.
SEED = 1


def simulate(actions: Sequence[Timed] | None) -> Simulation:
    mutant = Mutant(DeliversBeyondReserved, Property.GLOBAL_ORDER)
    return Simulation(mutant, SEED, actions=actions)


def test_a_trace_has_few_actions_and_what_happened() -> None:
    trace = shrink(simulate)
    assert trace is not None
    assert len(simulate(None).schedule) > 100
    assert 2 <= len(trace.actions) <= 6
    lines = list(trace.lines())
    assert any("Publish" in line for line in lines)
    assert any("global order" in line for line in lines)
    assert any("delivers" in line and "late" in line for line in lines)
    assert any("is connected" in line for line in lines)


def test_a_good_seed_has_no_trace() -> None:
    assert shrink(lambda actions: Simulation(VARIANTS["logical"], 0, actions=actions)) is None
