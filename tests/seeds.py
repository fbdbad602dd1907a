"""Seeds of random schedules: a few in each run of the suite, the rest on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

#: False in a run without the soak, which need not collect its tens of thousands of cases. Set by
#: `conftest.py`.
has_soak = True


def seeds(usual: int, all_of_them: int, first: int = 0) -> list[Any]:
    """Return this many seeds for each run, and the remaining ones for `pytest -m soak`."""
    end = first + usual
    return [*range(first, end), *further_cases(*range(end, first + all_of_them))]


def some_of(cases: Sequence[Any], every: int) -> list[Any]:
    """Return each so-many-th case for each run, and the other ones for `pytest -m soak`."""
    others = [case for number, case in enumerate(cases) if number % every]
    return [*cases[::every], *further_cases(*others)]


def further_cases(*cases: Any) -> list[Any]:
    """Return the cases of a test for `pytest -m soak` alone; a tuple has one value a parameter."""
    if not has_soak:
        return []
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.soak)
        for case in cases
    ]
