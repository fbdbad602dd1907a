from __future__ import annotations

import pytest

from broker.event.envelope import SecurityLevel
from broker.identity import is_cleared

LOW, MED, HIGH = SecurityLevel.LOW, SecurityLevel.MED, SecurityLevel.HIGH


@pytest.mark.parametrize(
    ("clearance", "levels"), [(LOW, {LOW}), (MED, {LOW, MED}), (HIGH, {LOW, MED, HIGH})]
)
def test_a_clearance_opens_its_own_level_and_those_below(
    clearance: SecurityLevel, levels: set[SecurityLevel]
) -> None:
    assert {level for level in SecurityLevel if is_cleared(clearance, level)} == levels
