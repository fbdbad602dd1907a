from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from broker.cli.event_format import as_json, as_text
from broker.cli.order_format import order_as_content, order_as_text, stamp_as_text
from broker.event.order_entry import OrderEntry
from tests.cli.fake_node import FakeNode, received, run

NOON = 1_700_000_000_120_000
IN_TIME = OrderEntry("ops", "a", 7, 9, NOON, "hybrid", 7_400)
LATE = attrs.evolve(IN_TIME, is_late=True, before=("c", 2, 4), after=("a", 7, 10))
LOGICAL = OrderEntry("ops", "b", 1, 2, -3, "logical", is_recovered=True)
WAITING = OrderEntry("ops", "b", 1, 3, None, "sequencer")


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (IN_TIME, "22:13:20.120 ± 8 ms"),
        (attrs.evolve(IN_TIME, bound=1), "22:13:20.120 ± 1 ms"),
        (attrs.evolve(IN_TIME, stamp=2**62), str(2**62)),
        (LOGICAL, "-3"),
        (WAITING, "no number"),
    ],
)
def test_a_stamp_that_is_a_time_has_a_bound(entry: OrderEntry, text: str) -> None:
    assert stamp_as_text(entry) == text


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (IN_TIME, "a 22:13:20.120 ± 8 ms"),
        (LATE, "a 22:13:20.120 ± 8 ms late after c/2/4 before a/7/10"),
        (attrs.evolve(LATE, before=None, after=None), "a 22:13:20.120 ± 8 ms late"),
        (LOGICAL, "b -3 recovered"),
        (WAITING, "b no number"),
    ],
)
def test_late_and_recovered_events_are_marked(entry: OrderEntry, text: str) -> None:
    assert order_as_text(entry) == text
    event = attrs.evolve(received(5), order=entry)
    assert as_text(event).decode().splitlines()[0].endswith(f"origin:1:5  {text}")


def test_names_of_sites_can_not_command_the_terminal() -> None:
    event = attrs.evolve(received(5), order=attrs.evolve(WAITING, site="\x1b[2J"))
    assert b"\x1b" not in as_text(event)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (IN_TIME, {"stamp": NOON, "time": "22:13:20.120 ± 8 ms", "late": False}),
        (LATE, {"late": True, "before": "c/2/4", "after": "a/7/10"}),
        (attrs.evolve(LATE, before=None), {"late": True, "before": None, "after": "a/7/10"}),
        (LOGICAL, {"site": "b", "incarnation": 1, "number": 2, "stamp": -3, "recovered": True}),
        (WAITING, {"stack": "ops", "variant": "sequencer", "stamp": None, "recovered": False}),
    ],
)
def test_an_event_has_its_order(entry: OrderEntry, expected: dict[str, Any]) -> None:
    found = json.loads(as_json(attrs.evolve(received(5), order=entry)))["order"]
    assert found == order_as_content(entry)
    assert {key: found[key] for key in expected} == expected
    assert ("time" in found) is (entry.bound > 0)
    assert ("before" in found) is ("after" in found) is entry.is_late


def test_sub_prints_the_order_of_events_that_have_one() -> None:
    node = FakeNode(stored=[received(1), attrs.evolve(received(2), order=LATE)])
    result = run(node, "sub", "--count", "2")
    assert result.exit_code == 0, result.output
    first, second = map(json.loads, result.stdout.splitlines())
    assert "order" not in first and second["order"] == order_as_content(LATE)
