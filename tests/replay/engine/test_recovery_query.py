from __future__ import annotations

import pytest

from broker.matching.query.query import parse_query
from broker.replay.engine.recovery_query import bind_liveness, parse_recovery_query


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("$Liveness = 'live'", "'recovery' = 'live'"),
        ("$Liveness='recovery'or//x", "'recovery'='recovery'or//x"),
        (
            "//x[y = $Liveness][$Liveness != '$Liveness']",
            "//x[y = 'recovery']['recovery' != '$Liveness']",
        ),
        ("not(contains(concat($Liveness, a), 'r'))", "not(contains(concat('recovery', a), 'r'))"),
        (
            "-string-length($Liveness) + count((//x)[. = $Liveness])",
            "-string-length('recovery') + count((//x)[. = 'recovery'])",
        ),
        ("//x[2 > $TimeStamp]", "//x[2 > $TimeStamp]"),
        ("//x = '$Liveness'", "//x = '$Liveness'"),
    ],
)
def test_liveness_is_replaced_everywhere_in_a_query(text: str, asked: str) -> None:
    query = bind_liveness(parse_query(text))
    assert query.text == asked
    assert "Liveness" not in query.variables


def test_a_query_of_maximum_length_is_accepted() -> None:
    text = "$Liveness = 'live' and //x = '" + "y" * (4096 - 31) + "'"
    assert len(text) == 4096
    assert bind_liveness(parse_query(text)).text.startswith("'recovery' = 'live'")


def test_prefixes_stay_bound() -> None:
    query = parse_recovery_query("//v:x = $Liveness", (("v", "urn:v"),))
    assert query.namespaces == (("v", "urn:v"),)
