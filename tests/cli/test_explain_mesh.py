"""`xmlbroker explain --mesh`."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from broker.cli.explanation.path_tree import path_tables
from broker.errors import NotAllowed
from tests.cli.fake_node import FakeNode, run

EVENT = "feed/1700/12@1700000000000"


def node(name: str, *children: Any, **fields: Any) -> dict[str, Any]:
    defaults = {"is_root": False, "level": 1, "has_passed": True, "copies": [], "parents": []}
    return {"name": name, **defaults, **fields, "children": list(children)}


def child(name: str, outcome: str = "forwarded", *queries: str) -> dict[str, Any]:
    return {"name": name, "outcome": outcome, "queries": list(queries)}


def copy(parent: str, late_ms: float = 0.0, *, is_repeated: bool = False) -> dict[str, Any]:
    return {"parent": parent, "late_ms": late_ms, "is_repeated": is_repeated}


def other_parent(name: str, *, has_passed: bool) -> dict[str, Any]:
    return {"name": name, "has_passed": has_passed}


def shown(*nodes: dict[str, Any], **fields: Any) -> list[str]:
    content = {
        "event": EVENT,
        "place": "log|a.>:1:7",
        "stack": {"name": "mesh"},
        "nodes": nodes,
        "silent": [],
        "partly": [],
        **fields,
    }
    screen = Console(width=160, file=io.StringIO(), highlight=False, markup=False)
    with screen.capture() as capture:
        for table in path_tables(content):
            screen.print(table)
    return [line.strip(" │├└─") for line in capture.get().splitlines()]


def test_each_copy_has_its_outcome() -> None:
    lines = shown(
        node("a1", child("b1"), child("b2"), child("b3", "waiting"), is_root=True, level=0),
        node("a2", child("b1"), child("b2", "unknown"), is_root=True, level=0, has_passed=False),
        node(
            "b1",
            child("c1"),
            child("c2", "filtered", "a.> //alert", "and 4 more"),
            child("desk-7"),
            copies=[copy("a1"), copy("a2", 12.34, is_repeated=True)],
        ),
        node("b2", child("c1"), child("c2"), copies=[copy("a1")]),
        node("c1", copies=[copy("b2")], parents=[other_parent("b1", has_passed=True)]),
        node("c2", parents=[other_parent("b2", has_passed=False)]),
    )
    assert lines == [
        f"{EVENT} at log|a.>:1:7, over mesh",
        "a1 (root)",
        "b1: first",
        "c1: lost",
        "c2: filtered: no query of it matches (a.> //alert; and 4 more)",
        "desk-7: forwarded; it does not answer questions",
        "b2: first",
        "c1: first",
        "c2: forwarded, and not arrived yet",
        "b3: not sent: it was just joining",
        "a2 (root: the event has not arrived here)",
        "b1: late, 12.3 ms behind the first, repeated after a request",
        "b2: unknown: the parent does not remember the event",
    ]


def test_a_node_below_a_dead_one_is_shown_and_a_circle_ends() -> None:
    lines = shown(
        node("b1", child("c1"), copies=[copy("a1")]),
        node("c1", child("b1"), copies=[copy("b1")]),
        silent=["one/a1"],
    )
    assert lines[1:] == [
        "b1 (first from a1: no answer)",
        "c1: first",
        "b1: forwarded over an earlier connection; nothing is known of the copy",
        "one/a1: did not answer",
    ]


def test_an_event_over_another_stack_has_no_paths() -> None:
    assert "no node remembers its paths" in shown(stack=None)[1]


@pytest.mark.parametrize(("place", "status"), [("log|a.>:1:7", 0), (None, 2)])
def test_the_answer_is_json_in_a_pipe(place: str | None, status: int) -> None:
    answer: dict[str, Any] = {"event": EVENT, "place": place, "stack": None, "nodes": []}
    asked = FakeNode(answers={"event-paths": answer})
    result = run(asked, "explain", "--mesh", EVENT)
    assert (result.exit_code, json.loads(result.stdout)) == (status, answer)
    assert asked.asked == [("event-paths", {"event": EVENT})]


def test_errors_are_status_2() -> None:
    result = run(FakeNode(), "explain", "--mesh", EVENT, "//alert")
    assert (result.exit_code, "takes an EVENT-ID" in result.stderr) == (2, True)
    denied = FakeNode(answers={"event-paths": NotAllowed("no right")})
    result = run(denied, "explain", "--mesh", EVENT)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("xmlbroker: no right")
