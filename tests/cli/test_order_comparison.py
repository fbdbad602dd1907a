"""`xmlbroker order compare`."""

from __future__ import annotations

import json
from typing import Any

from broker.cli.comparison_report import comparison_lines
from tests.cli.fake_node import FakeNode, run
from tests.cli.test_order_status import GROUP, node_with

HYBRID: dict[str, Any] = {
    "delivers": True,
    "variant": "hybrid",
    "messages": 72_110,
    "late": 12,
    "own_median": 0.1019,
    "own_p99": 0.11116,
    "others_median": 0.0535,
    "others_p99": 0.0924,
    "extra_bytes": 902_118,
    "verdict": "in order, equal with b",
    "kept": True,
}
REAL_TIME = {
    **HYBRID,
    "delivers": False,
    "variant": "real-time",
    "messages": 0,
    "own_median": None,
    "verdict": "violated: c/1/2 came behind 1/3 of its site",
    "kept": False,
}


def compared(*variants: dict[str, Any]) -> dict[str, Any]:
    b, c = GROUP["peers"]
    return {
        **GROUP,
        "peers": [
            {**b, "compares": ["hybrid", "real-time"], "comparison_error": ""},
            {**c, "compares": ["hybrid"], "comparison_error": "malformed packet"},
            {"site": "d", "status": "connected", "compares": [], "comparison_error": ""},
        ],
        "comparison": {"rejected": 1, "clock_uncertainty": 0.0004, "variants": variants},
    }


def test_each_variant_has_a_row_and_a_verdict() -> None:
    assert list(comparison_lines(compared(HYBRID, REAL_TIME))) == [
        "ops: hybrid delivers, clocks ± 0.4 ms",
        "variant    own ms    p99  others ms   p99  messages  late  extra bytes",
        "hybrid      101.9  111.2       53.5  92.4    72,110    12      902,118",
        "real-time       -  111.2       53.5  92.4         0    12      902,118",
        "hybrid: in order, equal with b",
        "real-time: violated: c/1/2 came behind 1/3 of its site",
        "c has no part any more: malformed packet",
        "d has no part",
    ]


def test_the_exit_status_tells_whether_all_variants_kept_the_order() -> None:
    for variants, expected in (([HYBRID], 0), ([HYBRID, REAL_TIME], 1)):
        node: FakeNode = node_with(compared(*variants))
        result = run(node, "order", "compare", "ops")
        assert result.exit_code == expected
        found = json.loads(result.output)
        assert found["stack"] == "ops" and found["variants"] == list(variants)


def test_a_node_without_a_comparison_is_an_error() -> None:
    for node in (node_with(), node_with(GROUP)):
        result = run(node, "order", "compare")
        assert result.exit_code == 2 and "no site of a compared group" in result.output
