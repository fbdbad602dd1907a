"""`xmlbroker order status`."""

from __future__ import annotations

import json
from typing import Any

from broker.cli.group_report import group_lines, site_lines
from tests.cli.fake_node import FakeNode, run

GROUP: dict[str, Any] = {
    "name": "ops",
    "use": "rcm",
    "order": "hybrid",
    "streams": ["chat.>"],
    "error": "",
    "waiting": 2,
    "released": 4_712,
    "peers": [
        {
            "site": "b",
            "status": "connected",
            "for": 12.3,
            "reason": "",
            "clock_offset": 0.0021,
            "clock_uncertainty": 0.0005,
            "delivered": 4_711,
        },
        {
            "site": "c",
            "status": "suspected",
            "for": 4.0,
            "reason": "silent",
            "next_change_in": 56.0,
        },
    ],
}


def node_with(*stacks: dict[str, Any]) -> FakeNode:
    node = FakeNode()
    node.answers["status"] = lambda: {"stacks": [{"name": "mspaces"}, *stacks]}
    return node


def test_each_site_has_a_line_with_status_reason_and_times() -> None:
    assert list(group_lines(GROUP)) == [
        "ops: hybrid order of chat.>, 2 waiting",
        "  b: connected for 12 s, clock +2.1 ± 0.5 ms, has 4,711 of 4,712 messages",
        "  c: suspected for 4 s, silent, next change in 56 s",
    ]


def test_the_exit_status_tells_whether_all_sites_are_connected() -> None:
    node = node_with(GROUP)
    result = run(node, "order", "status")
    assert result.exit_code == 1
    assert json.loads(result.output) == GROUP
    connected = {**GROUP, "peers": GROUP["peers"][:1]}
    assert run(node_with(connected), "order", "status", "ops").exit_code == 0


def test_a_node_that_is_no_site_is_an_error() -> None:
    result = run(node_with(), "order", "status")
    assert result.exit_code == 2 and "no site of a group" in result.output
    result = run(node_with(GROUP), "order", "status", "other")
    assert result.exit_code == 2 and "the group other" in result.output


def test_a_change_of_the_sites_shows_them_and_whether_it_counts() -> None:
    answer = {"stack": "ops", "site": "c", "applied": True, "sites": {"a": "tcp:host=a:port=1"}}
    node = FakeNode()
    node.answers["order-admit"] = lambda: answer
    node.answers["order-remove"] = lambda: {**answer, "applied": False}
    result = run(node, "order", "admit", "ops", "c", "tcp:host=c:port=1")
    assert (result.exit_code, json.loads(result.output)) == (0, answer)
    assert run(node, "order", "remove", "ops", "c").exit_code == 1
    assert node.asked == [
        ("order-admit", {"stack": "ops", "site": "c", "address": "tcp:host=c:port=1"}),
        ("order-remove", {"stack": "ops", "site": "c"}),
    ]
    assert list(site_lines({**answer, "applied": False})) == [
        "ops: sites at this node; a later change of c counts",
        "  a: tcp:host=a:port=1",
    ]
