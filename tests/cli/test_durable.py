from __future__ import annotations

import json
from typing import Any

import pytest

from broker.cli.node_sample import Sample
from broker.cli.overview import overview_tables
from broker.errors import SubscriptionHeld
from tests.cli.fake_node import FakeNode, run
from tests.cli.network_status import status_of

ROW = {
    "client": "desk",
    "name": "d",
    "state": "away",
    "pattern": ">",
    "query": "true()",
    "position": "n:1:2",
    "used_ms": 0,
    "events": 3,
    "bytes": 2048,
    "seconds": 60.0,
    "before_log": 0,
}


def test_subscriptions_are_listed_a_line_each() -> None:
    node = FakeNode(answers={"durable-list": {"subscriptions": [ROW, ROW], "left_out": 7}})
    result = run(node, "durable", "list", "--client", "desk")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [ROW, ROW]
    assert "7 more" in result.stderr
    assert node.asked == [("durable-list", {"client": "desk"})]


@pytest.mark.parametrize("what", ["show", "pause", "resume"])
def test_a_subscription_is_requested_by_name(what: str) -> None:
    node = FakeNode(answers={f"durable-{what}": ROW})
    mine = run(node, "durable", what, "d", "--account", "desk")
    assert json.loads(mine.stdout) == ROW
    other = run(node, "durable", what, "d", "--client", "desk-7")
    assert json.loads(other.stdout) == ROW
    assert [said for _, said in node.asked] == [{"name": "d"}, {"name": "d", "client": "desk-7"}]
    assert {asked for asked, _ in node.asked} == {f"durable-{what}"}
    # A random client id has no subscription.
    assert "--client" in run(node, "durable", what, "d").stderr


@pytest.mark.parametrize(
    ("to", "sent"),
    [("start", "start"), ("end", "end"), ("1000", "1000"), ("n:1:2", "n:1:2")],
)
def test_a_reset_sends_its_target_and_prints_the_effect(to: str, sent: str) -> None:
    row = {**ROW, "reset": {"skipped": 2, "again": 5}}
    node = FakeNode(answers={"durable-reset": row})
    result = run(node, "durable", "reset", "d", "--to", to, "--client", "desk")
    assert node.asked == [("durable-reset", {"name": "d", "client": "desk", "to": sent})]
    assert "2 places are skipped" in result.stderr and "5 places come again" in result.stderr


def test_an_invalid_target_is_not_sent() -> None:
    node = FakeNode()
    assert run(node, "durable", "reset", "d", "--to", "soon", "--client", "c").exit_code == 1
    assert node.connections == []


@pytest.mark.parametrize(("key", "status"), [("", 0), ("silent", 1), ("kept", 1)])
def test_a_deletion_that_is_not_complete_has_status_1(key: str, status: int) -> None:
    told: dict[str, Any] = {"here": True, "elsewhere": ["alps/n3"], "silent": []}
    told |= {key: ["alps/n2"]} if key else {}
    result = run(
        FakeNode(answers={"durable-delete": told}), "durable", "delete", "d", "--client", "c"
    )
    assert result.exit_code == status
    assert ("alps/n2" in result.stderr) == bool(key)


def test_a_refusal_of_the_node_is_printed_as_one_line() -> None:
    node = FakeNode(answers={"durable-reset": SubscriptionHeld("'d' is in use")})
    result = run(node, "durable", "reset", "d", "--to", "end", "--client", "c")
    assert (result.exit_code, result.stderr) == (1, "xmlbroker: 'd' is in use\n")


def test_a_moved_subscription_has_no_lag_here() -> None:
    from io import StringIO

    from rich.console import Console

    from broker.cli.overview import durable_table

    screen = Console(file=StringIO(), width=100)
    moved = dict.fromkeys(("events", "bytes", "seconds", "before_log"))
    screen.print(durable_table([{**ROW, **moved, "state": "moved"}]))
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    rows = [line.split() for line in text.splitlines() if "desk" in line]
    assert rows == [["desk", "d", "moved", "-", "-", "-"]]


def test_top_shows_those_that_are_behind() -> None:
    from io import StringIO

    from rich.console import Console

    durable = {"furthest_behind": [ROW, {**ROW, "name": "e", "events": 0}]}
    sample = Sample("tcp:a", 0.0, {**status_of("a1"), "durable": durable})
    screen = Console(file=StringIO(), width=100)
    for table in overview_tables([sample], [{}]):
        screen.print(table)
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    rows = [line.split() for line in text.splitlines() if "desk" in line]
    assert rows == [["alps/a1", "desk", "d", "away", "3", "2", "60"]]
