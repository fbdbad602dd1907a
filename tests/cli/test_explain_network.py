from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from broker.cli.explanation.tables import explanation_tables
from broker.testing.flights import flight
from tests.cli.fake_node import FakeNode, run


def answer(verdict: str, *, known: bool | None = True) -> dict[str, Any]:
    row = {"durable": "d", "pattern": ">", "verdict": verdict, "reason": "because"}
    nodes = [{"node": "one/a", "verdict": verdict, "reason": "so", "subscriptions": [row]}]
    network: dict[str, Any] = {"known": known, "place": "o:1:2", "nodes": nodes if known else []}
    network["silent"] = ["two"]
    client: dict[str, Any] = {"client": "c", "connected": [], "accepted": None}
    client |= {"subscriptions": [], "left_out": 0}
    return {"explanation": None, "client": client, "network": network}


def shown(content: dict[str, Any]) -> str:
    file = StringIO()
    screen = Console(file=file, width=120)
    for table in explanation_tables(content):
        screen.print(table)
    return file.getvalue()


@pytest.mark.parametrize(("verdict", "status"), [("delivered", 0), ("withheld", 0), ("denied", 1)])
def test_a_subscription_elsewhere_decides_the_exit_status(
    tmp_path: Path, verdict: str, status: int
) -> None:
    file = tmp_path / "flight.xml"
    file.write_bytes(flight(1))
    node = FakeNode(answers={"explain": answer(verdict)})
    assert run(node, "explain", "--here", "--client", "c", str(file)).exit_code == status
    assert node.asked[0][1]["here"] == "yes"


RADAR = {"name": "radar", "use": "two_parents", "error": ""}


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        (RADAR, "radar (two_parents)"),
        ({**RADAR, "reached": "1:3"}, "radar (two_parents), has all up to 1:3"),
        ({**RADAR, "error": "no more"}, "radar (two_parents), stopped by an error: no more"),
        ({"name": "", "use": "", "error": ""}, "none: requested from the origin's log"),
        (None, ""),
    ],
)
def test_tables_show_the_stack_of_each_node(stack: dict[str, str] | None, words: str) -> None:
    content = answer("missing")
    if stack is not None:
        content["network"]["nodes"][0]["stack"] = stack
    text = shown(content)
    assert words in text and ("stack" in text) is (stack is not None)


def test_tables_show_the_stack_of_an_unpublished_event() -> None:
    content = answer("", known=False)
    content["network"]["stack"] = {"pattern": "asdi.>", **RADAR}
    assert "asdi.> is carried by: radar (two_parents)" in shown(content)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (True, ("one/a", "denied", "d: denied", "two")),
        (False, ("no node that answered has this event",)),
        (None, ("you may not read",)),
    ],
)
def test_tables_show_the_verdict_of_each_node(known: bool | None, words: tuple[str, ...]) -> None:
    text = shown(answer("denied", known=known))
    assert all(word in text for word in words)
