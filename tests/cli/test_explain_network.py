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


@pytest.mark.parametrize(("verdict", "status"), [("delivered", 0), ("denied", 1)])
def test_a_subscription_elsewhere_decides_the_exit_status(
    tmp_path: Path, verdict: str, status: int
) -> None:
    file = tmp_path / "flight.xml"
    file.write_bytes(flight(1))
    node = FakeNode(answers={"explain": answer(verdict)})
    assert run(node, "explain", "--here", "--client", "c", str(file)).exit_code == status
    assert node.asked[0][1]["here"] == "yes"


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (True, ("one/a", "denied", "d: denied", "two")),
        (False, ("no node that answered has this event",)),
        (None, ("you may not read",)),
    ],
)
def test_tables_show_the_verdict_of_each_node(known: bool | None, words: tuple[str, ...]) -> None:
    screen = Console(file=StringIO(), width=120)
    for table in explanation_tables(answer("denied", known=known)):
        screen.print(table)
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert all(word in text for word in words)
