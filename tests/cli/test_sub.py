from __future__ import annotations

import json
import os
import signal

import attrs
import pytest

from broker.client.merged import Merging
from broker.client.received import ALL, since_time
from broker.errors import BadQuery, GaveUp
from broker.event.site_notice import MissingMessages, MovedMessage, MovedMessages, SiteStatus
from tests.cli.fake_node import FakeNode, change, gap, received, run


def test_a_pipe_gets_lines_of_json() -> None:
    node = FakeNode(stored=[received(1), received(2, None, "asdi.zbw")])
    result = run(node, "sub", "--count", "2")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert lines == [
        {
            "place": "origin:1:1",
            "id": "zbw/7/1@1795000000001",
            "stream": "flights",
            "type": "flight",
            "version": "1.0",
            "level": "med",
            "liveness": "recovery",
            "payload": "<flight><id>x</id></flight>",
        },
        {
            "place": "origin:1:2",
            "id": "zbw/7/2@1795000000002",
            "stream": "asdi.zbw",
            "type": "flight",
            "version": "1.0",
            "level": "med",
            "liveness": "recovery",
            "payload": None,
        },
    ]
    assert result.stderr == "2 events\n"
    assert node.closed == 1


def test_payloads_or_documents_can_be_printed_alone() -> None:
    event = received(1, "<flight><id>é</id></flight>".encode())
    node = FakeNode(stored=[event])
    assert run(node, "sub", "--payload", "--count", "1").stdout == "<flight><id>é</id></flight>\n"
    result = run(node, "sub", "--document", "--count", "1")
    assert result.stdout_bytes == event.document + b"\n"


def test_options_are_passed_to_the_client() -> None:
    node = FakeNode(stored=[received(1)])
    run(
        node,
        *("sub", "/v:a[b > 3]", "--streams", "asdi.*.tz", "--namespace", "v=urn:v"),
        *(
            "--namespace",
            "w=urn:w=1",
            "--durable",
            "mine",
            "--client-id",
            "me",
            "--from",
            "all",
            "--queue",
            "coalesce:/v:a/@id",
            "--count",
            "1",
        ),
    )
    asked = node.subscriptions[0]
    asked.pop("on_gap")
    asked.pop("on_change")
    asked.pop("on_notice")
    assert asked == {
        "query": "/v:a[b > 3]",
        "streams": "asdi.*.tz",
        "namespaces": {"v": "urn:v", "w": "urn:w=1"},
        "durable": "mine",
        "start": ALL,
        "queue": "coalesce:/v:a/@id",
        "merge": None,
    }


def test_merge_options_are_passed_to_the_client() -> None:
    node = FakeNode(stored=[received(1)])
    how = ("--merge", "time within 250ms", "--merge-order", "a.b,bundle:x", "--merge-wait", "3")
    assert run(node, "sub", "--count", "1", *how).exit_code == 0
    assert run(node, "sub", "--count", "1", "--merge", "linked").exit_code == 0
    assert [asked["merge"] for asked in node.subscriptions] == [
        Merging.by("time within 250ms", ["a.b", "bundle:x"], wait=3.0),
        Merging(),
    ]


def test_a_mesh_with_its_parents_is_passed_to_the_client() -> None:
    node = FakeNode(stored=[received(1)])
    result = run(node, "sub", "--count", "1", "--mesh", "--parents", "3")
    assert result.stderr == "1 events, 1 came first through the mesh\n"
    run(node, "sub", "--count", "1", "--mesh")
    run(node, "sub", "--count", "1")
    assert [each.get("parents") for each in node.subscriptions] == [3, 2, None]
    assert "--parents needs --mesh" in run(node, "sub", "--parents", "3").stderr
    assert run(node, "sub", "--mesh", "--parents", "9").exit_code == 2


def test_without_a_start_the_library_decides() -> None:
    node = FakeNode(stored=[received(1)])
    run(node, "sub", "--count", "1")
    assert node.subscriptions[0]["start"] is None
    assert (node.subscriptions[0]["query"], node.subscriptions[0]["streams"]) == ("true()", ">")
    run(node, "sub", "--count", "1", "--from", "1970-01-01T00:00:01Z")
    assert node.subscriptions[1]["start"] == since_time(1000)


def test_idleness_ends_it() -> None:
    node = FakeNode(stored=[received(number) for number in range(1, 2001)])
    result = run(node, "sub", "--payload", "--idle", "0.05")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 2000


def test_it_is_not_idle_while_the_node_catches_up() -> None:
    answers = [[{"stage": "archive"}]] * 3
    node = FakeNode(answers={"recoveries": lambda: answers.pop() if answers else []})
    result = run(node, "sub", "--from", "all", "--idle", "0.05")
    assert result.exit_code == 0
    assert [what for what, _ in node.asked] == ["recoveries"] * 4


def test_a_changed_type_is_printed_in_order() -> None:
    node = FakeNode(stored=[received(1), change(), received(2)])
    result = run(node, "sub", "--count", "2")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("place") for line in lines] == ["origin:1:1", None, "origin:1:2"]
    assert lines[1]["type-changed"] == {
        "type": "flight",
        "old": "1.0",
        "new": "2.0",
        "effect": "can-not-match-any-more",
        "reason": "the DTD flight 2.0 has no element 'alt'",
        "paths": ["/flight/alt"],
        "came": [],
        "went": ["/flight/alt", "/flight/alt/text()"],
        "changed": [],
        "left_out": 2,
    }
    assert result.stderr.splitlines() == [
        "type: flight 2.0 is newer than 1.0: the query matches no event of the new version "
        "(the DTD flight 2.0 has no element 'alt'); query reads: /flight/alt; "
        "went: /flight/alt, /flight/alt/text(); and 2 more",
        "2 events",
    ]


def test_gaps_are_printed_in_order() -> None:
    node = FakeNode(stored=[received(1), gap(2, 4), gap(5, 6, "slow"), received(7)])
    result = run(node, "sub", "--count", "2")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("place") for line in lines] == ["origin:1:1", None, None, "origin:1:7"]
    assert lines[1]["gap"] == {
        "first": "origin:1:2",
        "last": "origin:1:4",
        "count": 3,
        "reason": "retention",
    }
    assert result.stderr.splitlines() == [
        "gap: 3 places from origin:1:2 to origin:1:4 are no longer in the node's log",
        "gap: 2 events from origin:1:5 to origin:1:6 are dropped, "
        "because this subscriber or its node was too slow",
        "2 events, 2 gaps",
    ]
    result = run(node, "sub", "--count", "2", "--payload")
    assert len(result.stdout.splitlines()) == 2


def test_notices_about_sites_are_printed_in_order() -> None:
    lost = MissingMessages("ops", "c", 7, 3, 5, "no log has them")
    status = SiteStatus("ops", "c", "suspected", "silent", 1_700_000_000_000, 1_700_000_060_000)
    connected = attrs.evolve(status, state="connected", reason="", until=None)
    moved = MovedMessages(
        "ops", (MovedMessage("c", 7, 2, 2**40, "a"), MovedMessage("b", 1, 1, 5, "b"))
    )
    node = FakeNode(
        stored=[
            *(received(1), status, connected, received(2), lost),
            *(attrs.evolve(lost, last=3, reason=""), moved, received(3)),
        ]
    )
    result = run(node, "sub", "--count", "3")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("place") for line in lines] == [
        *("origin:1:1", None, None, "origin:1:2", None, None, None, "origin:1:3"),
    ]
    assert lines[1] == {
        "status": {
            "stack": "ops",
            "site": "c",
            "state": "suspected",
            "reason": "silent",
            "at": 1_700_000_000_000,
            "until": 1_700_000_060_000,
        }
    }
    assert lines[4] == {
        "missing": {
            "stack": "ops",
            "site": "c",
            "incarnation": 7,
            "first": 3,
            "last": 5,
            "reason": "no log has them",
        }
    }
    assert lines[6]["moved"] == json.loads(json.dumps(attrs.asdict(moved)))
    assert result.stderr.splitlines() == [
        "site: c of ops suspected 2023-11-14T22:13:20.000Z, until 2023-11-14T22:14:20.000Z: silent",
        "site: c of ops connected 2023-11-14T22:13:20.000Z",
        "missing: 3 to 5 of c/7 of ops do not come: no log has them",
        "missing: 3 of c/7 of ops do not come",
        "moved: of ops, 2 of c/7 to 1099511627776 a, 1 of b/1 to 5 b",
        "3 events",
    ]
    assert len(run(node, "sub", "--count", "3", "--payload").stdout.splitlines()) == 3


def test_an_interrupt_acknowledges_the_printed_events() -> None:
    node = FakeNode(stored=[received(1), received(2)], warnings=("that is slow",))
    node.on_wait = lambda: os.kill(os.getpid(), signal.SIGINT)
    result = run(node, "sub", "--durable", "d", "--client-id", "me")
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr.splitlines() == ["warning: that is slow", "2 events"]
    assert [str(position) for position in node.processed] == ["origin:1:2"]


def test_only_printed_events_are_acknowledged() -> None:
    node = FakeNode(stored=[received(number) for number in range(1, 10)])
    run(node, "sub", "--durable", "d", "--account", "me", "--count", "4")
    assert [str(position) for position in node.processed] == ["origin:1:4"]


def test_a_bad_query_is_one_line_with_its_position() -> None:
    node = FakeNode(bad_query=BadQuery("expected an operand", line=1, column=4))
    result = run(node, "sub", "/a[")
    assert result.exit_code == 1
    assert result.stderr == (
        "xmlbroker: expected an operand (line 1, column 4); correct the query\n"
    )


def test_no_node_is_one_line() -> None:
    result = run(FakeNode(unreachable=GaveUp("no node answered at x")), "sub")
    assert result.exit_code == 1
    assert result.stderr.startswith("xmlbroker: no node answered at x; start a node")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--from", "yesterday"),
        ("--namespace", "p"),
        ("--namespace", "=urn:x"),
        ("--count", "0"),
        ("--idle", "0"),
        ("--durable", "without-a-name-of-the-client"),
        ("--merge", "zip"),
        ("--merge", "linked", "--merge-order", "a"),
        ("--merge", "time", "--merge-wait", "-1"),
        ("--merge-order", "a,b"),
        ("--merge-wait", "3"),
    ],
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    node = FakeNode()
    assert run(node, "sub", *arguments).exit_code == 2
    assert node.connections == []


def test_a_wrong_pattern_is_reported_before_the_node_is_asked() -> None:
    node = FakeNode()
    result = run(node, "sub", "--streams", "a.>.b")
    assert result.exit_code == 1
    assert "may stand only at the end" in result.stderr
    assert node.connections == []
