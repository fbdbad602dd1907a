"""Every variant keeps the five properties over seeded schedules of faults (RCM R49; A10)."""

from __future__ import annotations

import pytest

from broker.testing.order.checker import check
from broker.testing.order.run import Run
from broker.testing.order.simulation import Simulation
from broker.transport.order import VARIANTS
from tests.seeds import seeds
from tests.transport.order.mutants import MUTANTS, Mutant

#: Schedules of one test.
BATCH = 10
#: Seeds within which the checker finds each mutant.
MOST_SEEDS = 1_000


def run_seed(variant: str, seed: int) -> Run:
    run = Simulation(VARIANTS[variant], seed).execute()
    violations = check(run)
    assert not violations, "\n".join([f"{variant}, seed {seed}:", *map(str, violations)])
    return run


@pytest.mark.parametrize("first", seeds(20 // BATCH, 10_000 // BATCH))
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_keeps_the_properties(variant: str, first: int) -> None:
    runs = [run_seed(variant, seed) for seed in range(first * BATCH, (first + 1) * BATCH)]
    late = [each for run in runs for some in run.deliveries.values() for each in some if each.late]
    assert late, "the schedules made nothing late"


def test_a_sequencer_keeps_numbers_that_a_silent_member_may_have_delivered() -> None:
    run_seed("sequencer", 3886)


def test_a_sequencer_leaves_an_epoch_that_has_the_counter_of_an_offer() -> None:
    run_seed("sequencer", 7713)


def test_a_sequencer_tells_on_the_place_of_a_message_that_has_the_number_of_another() -> None:
    run_seed("sequencer", 4673)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.core.__name__)
def test_the_checker_finds_a_faulty_variant(mutant: Mutant) -> None:
    for seed in range(MOST_SEEDS):
        violations = check(Simulation(mutant, seed, link=mutant.link).execute())
        if any(each.property is mutant.property for each in violations):
            return
    pytest.fail(f"not found within {MOST_SEEDS} seeds")
