from __future__ import annotations

import pytest

from benchmarks.against import compare
from benchmarks.costs import costs


def test_a_work_that_costs_a_tenth_more_misses_the_floor() -> None:
    then = {"a": [10.0, 30.0, 20.0], "gone": [1.0]}
    report = compare("v1", {"line": (then, {"a": [22.0, 22.0, 99.0], "new": [5.0]})})
    (floor,) = report.floors
    assert floor.value == pytest.approx(1.1)
    assert not floor.is_met
    assert [row[0] for row in report.sheets[0].rows] == ["line: a"]


def test_a_work_that_costs_little_more_holds_it() -> None:
    report = compare("v1", {"archive": ({"a": [10.0]}, {"a": [10.7]})})
    assert report.floors[0].is_met


@pytest.mark.parametrize(
    ("name", "figures", "expected"),
    [
        (
            "node",
            {
                "works": [
                    {
                        "name": "node, prebuilt",
                        "subscribers": 1,
                        "queries": 0,
                        "runs": [{"microseconds_per_event": 8.0}, {"microseconds_per_event": 9.0}],
                    },
                    {"name": "mosquitto", "subscribers": 1, "queries": 0, "runs": [{}]},
                ]
            },
            {"node, prebuilt 1->1, 0 queries": [8.0, 9.0]},
        ),
        (
            "links",
            {
                "runs": [
                    {"kind": "udp", "size": 262, "loss": 0.01, "sending": 2.0, "receiving": 3.0},
                    {"kind": "tcp", "size": 262, "loss": 0.0, "sending": 1.0, "receiving": 1.0},
                ]
            },
            {"udp, 262 bytes, 1% lost": [5.0]},
        ),
        ("latency", {"node_cpu_seconds": 2.0, "published": 1000}, {"node": [2000.0]}),
        (
            "line",
            {"runs": [{"work": "a line", "cpu": [1.0, 2.0, 3.0], "events": 1000}]},
            {"a line": [6000.0]},
        ),
        (
            "ingest",
            {
                "runs": [
                    {
                        "subscribers": 1,
                        "microseconds_per_event": 7.0,
                        "archived": {"cpu": 1.0, "events": 500},
                    }
                ]
            },
            {
                "1->1, archive on: node": [7.0],
                "1->1, archive on: archiver": [2000.0],
                "1->1, archive on: both": [2007.0],
            },
        ),
        (
            "archive",
            {
                "measured": [{"workload": "flights", "level": 3, "micros": 4.0}],
                "cold": [
                    {"workload": "flights", "what": "verify", "cpu": 1.0, "events": 10},
                    {"workload": "flights", "what": "recover all", "cpu": 2.0, "events": 10},
                ],
            },
            {"flights, zstd 3": [4.0], "flights, recover all": [200_000.0]},
        ),
    ],
)
def test_costs_are_read_from_each_benchmark(
    name: str, figures: object, expected: dict[str, list[float]]
) -> None:
    assert costs(name, figures) == expected
