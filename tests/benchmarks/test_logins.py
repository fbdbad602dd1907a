from __future__ import annotations

from benchmarks.logins import Run, report


def test_the_latency_beside_the_logins_is_compared_with_that_beside_a_busy_core() -> None:
    ages = [float(number) for number in range(1, 101)]
    thrice = [3 * age for age in ages]
    paused = [9 * age for age in ages]
    told = report([Run(1_000, 2.0, 1.0, 4.5, ages, each) for each in (thrice, paused, thrice)])
    cpu, growth = told.floors
    assert (cpu.value, cpu.is_met) == (4.5, True)
    assert (growth.value, growth.is_met) == (3.0, False)
    assert [row[3:] for row in told.sheets[0].rows[:2]] == [
        ("50.00", "99.00"),
        ("150.00", "297.00"),
    ]
