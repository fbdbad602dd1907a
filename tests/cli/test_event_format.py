from __future__ import annotations

import json

import attrs
import pytest

from broker.cli.event_format import (
    as_json,
    as_text,
    clock_time,
    missing_as_json,
    missing_as_text,
)
from broker.client.merged import MergedEvent
from broker.event.merging.held_event import MissingNumbers
from tests.cli.fake_node import received


def test_text_is_a_summary_line_and_the_payload() -> None:
    event = received(5, b"<flight>\n <id>1</id></flight>")
    line, *payload = as_text(event).decode().splitlines()
    assert line.split("  ") == [
        "2026-11-18T11:06:40.005Z",
        "flights",
        "flight 1.0",
        "med",
        "recovery",
        "zbw#5",
        "origin:1:5",
    ]
    assert payload == ["<flight>", " <id>1</id></flight>"]


@pytest.mark.parametrize("late", [False, True])
def test_a_late_event_of_a_merge_is_marked(late: bool) -> None:
    event = received(5)
    merged = MergedEvent(event.place, event.header, event.liveness, event.document, late)
    assert as_text(merged).splitlines()[0].endswith(b"  late") is late
    assert json.loads(as_json(merged)).get("late", False) is late


def test_the_event_s_own_time_is_shown() -> None:
    event = received(5)
    timed = attrs.evolve(event, header=event.header._replace(time=1_700_000_000_000))
    assert as_text(timed).splitlines()[0].endswith(b"  time 2023-11-14T22:13:20.000Z")
    assert json.loads(as_json(timed))["time"] == 1_700_000_000_000
    assert "time" not in json.loads(as_json(event))


def test_missing_numbers_of_a_bundle_are_one_line() -> None:
    hole = MissingNumbers("alerts", "b", 2, 4)
    assert missing_as_text(hole) == "bundle: 'b' of alerts is missing 2 to 4"
    assert (
        missing_as_text(MissingNumbers("alerts", "b", 2, 2)) == "bundle: 'b' of alerts is missing 2"
    )
    assert json.loads(missing_as_json(hole)) == {
        "missing": {"stream": "alerts", "bundle_id": "b", "first": 2, "last": 4}
    }


def test_an_event_without_a_payload_is_its_line() -> None:
    assert as_text(received(5, None)).count(b"\n") == 1


def test_a_payload_can_not_command_the_terminal() -> None:
    # C1 controls are legal in XML; some terminals obey them.
    assert b"<a>\\x9b2J</a>" in as_text(received(1, "<a>\x9b2J</a>".encode()))


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (10**18, "1000000000000000000")],
)
def test_a_time_outside_the_calendar_is_a_number(milliseconds: int, text: str) -> None:
    assert clock_time(milliseconds) == text
