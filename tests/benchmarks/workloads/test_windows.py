from __future__ import annotations

import random

import pytest

from benchmarks.workloads.windows import Scale


@pytest.mark.parametrize("share", [0.0001, 0.01, 0.1, 0.5])
@pytest.mark.parametrize(
    "values",
    [
        pytest.param([float(number) for number in range(100, 450)], id="whole numbers"),
        pytest.param([-3.0001, -3.0, 0.5, 0.50001, 12.25, 1e6], id="near and far"),
    ],
)
def test_a_window_holds_about_its_share_of_the_values_and_at_least_one(
    values: list[float], share: float
) -> None:
    chance, scale = random.Random(1), Scale(values)
    held = []
    for _ in range(2_000):
        low, high = map(float, scale.window(chance, share))
        held.append(sum(low < value < high for value in values))
    assert min(held) >= 1
    expected = max(1.0, share * len(values))
    assert sum(held) / len(held) == pytest.approx(expected, rel=0.2, abs=0.2)


def test_windows_of_the_same_width_have_many_different_bounds() -> None:
    chance, scale = random.Random(1), Scale(range(10))
    assert len({scale.window(chance, 0.1) for _ in range(1_000)}) > 900


def test_bounds_are_written_without_an_exponent() -> None:
    chance, scale = random.Random(1), Scale([0.0, 1e-7, 2e-7, 1e9])
    assert not any("e" in bound for _ in range(50) for bound in scale.window(chance, 0.3))


def test_a_bound_is_exceeded_by_its_share() -> None:
    chance, scale = random.Random(1), Scale(range(1_000))
    bound = float(scale.bound(chance, 0.25))
    assert sum(value > bound for value in range(1_000)) == 250
