from __future__ import annotations

import io
import json
import re
from typing import Any

from rich.console import Console

from broker.cli.status import status_tables
from broker.errors import NotAllowed
from tests.cli.fake_node import FakeNode, run
from tests.cli.network_status import recovery, status_of

STATUS: dict[str, Any] = {
    "node": "n1",
    "version": "0.1",
    "origin": "abc",
    "started_ms": 1_795_000_000_000,
    "memory": {"resident_bytes": 64 << 20, "private_bytes": 32 << 20},
    "log": {"epoch": 1, "first": 1, "last": 12_345, "used_bytes": 5 << 20, "commits": 7},
    "published": {"received": 10, "accepted": 8, "refused": {"not-valid": 2}},
    "delivered": {"delivered": 99, "dropped": 0},
    "matcher": {"evaluations": 5},
    "inputs": [
        {"name": "siri", "pid": 4711, "found": 1234, "restarts": 2, "last_error": "evil\x1b[2J"},
        {"name": "spool", "pid": None},
    ],
    "of a later version": [1, 2],
    "types": [
        {
            "type": "flight",
            "version": "1.1",
            "shapes": 3,
            "recognised": 98_765,
            "parsed": 4,
            "recognised_seconds": 1.25,
            "suspended": True,
        },
        {"type": "", "version": "", "refused": 5},
    ],
    "sessions": [
        {
            "client": "evil\x1b[2J",
            "account": "",
            "incarnation": 7,
            "peer": "127.0.0.1:5",
            "connected": True,
            "queued_events": 1234,
            "subscriptions": [
                {"number": 1, "pace": "live", "durable": "d1", "delivered": 99, "dropped": 0}
            ],
        }
    ],
}


def test_a_pipe_gets_the_whole_answer_as_json() -> None:
    node = FakeNode(answers={"status": STATUS})
    result = run(node, "status")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == STATUS
    assert node.asked == [("status", {})]


def test_a_terminal_gets_tables() -> None:
    screen = Console(width=120, file=io.StringIO(), highlight=False, markup=False)
    with screen.capture() as shown:
        for table in status_tables(STATUS):
            screen.print(table)
    text = shown.get()
    for part in ("n1", "64.0 MiB", "12,345", "not-valid 2", "99", "1,234", "d1: pace live"):
        assert part in text
    assert "2026-11-18T11:06:40.000Z" in text
    assert "of a later version" in text
    assert "flight 1.1 (suspended)" in text
    assert re.search(r"siri +4711 +1,234 .* 2 +evil", text)
    assert re.search(r"spool +not running", text)
    assert "98,765" in text and "1.250" in text
    assert "(unknown)" in text
    assert "\x1b" not in text


def test_a_table_shows_the_fullest_limit_first() -> None:
    limit = {"per": "node", "setting": "limits.max_sessions", "reached": 7}
    limits = [
        {"name": "free", "used": 1, "bound": 1000, **limit},
        {"name": "near", "used": 900, "bound": 1000, **limit},
        {"name": "later"},
    ]
    screen = Console(width=200, file=io.StringIO(), highlight=False, markup=False)
    for table in status_tables({"limits": limits}):
        screen.print(table)
    assert isinstance(screen.file, io.StringIO)
    text = screen.file.getvalue()
    assert text.index("near") < text.index("free") < text.index("later ")
    assert re.search(r"near +node +900 +1,000 +7 +limits.max_sessions", text)


def test_tables_show_the_network_of_a_node() -> None:
    screen = Console(width=200, file=io.StringIO(), highlight=False, markup=False)
    with screen.capture() as shown:
        for table in status_tables(status_of("a1")):
            screen.print(table)
    text = shown.get()
    for part in (
        *("alps/a1", "a1, a2 (draining), a3 (unreachable)", "refused not-valid 1", "not trusted"),
        "coast via a2, gateways alps/a2 - coast/c1, interest not known",
    ):
        assert part in text, part


def test_tables_show_the_archive_and_recoveries() -> None:
    screen = Console(width=120, file=io.StringIO(), highlight=False, markup=False)
    with screen.capture() as shown:
        for table in status_tables(
            {**STATUS, "recovery": {**recovery(), "replays": None, "later": [1]}}
        ):
            screen.print(table)
    rows = {tuple(line.split()) for line in shown.get().splitlines()}
    for row in (
        *("archive: behind 12", "archive: bytes 3.0 MiB", "archive: archived abc 1:4000"),
        *("archive: problem -", "replays -", "hand offs: taken over 2", "pages: served 77"),
        "recoveries: events log 1, former 20, logs 300, archive 4,000",
    ):
        assert tuple(row.split()) in rows, row


def test_tables_show_each_neighbour_of_a_stack_on_its_own() -> None:
    stack = {
        "name": "mesh",
        "links": [{"dropped": 3, "peers": [{"address": "1.2.3.4:5"}, {"address": "1.2.3.4:6"}]}],
        "parents": [
            {"name": "r1", "first": 7_000, "skew_ms": 1.5},
            {"name": "r2", "first": 8, "skew_ms": 0.0},
        ],
        "children": [],
    }
    screen = Console(width=120, file=io.StringIO(), highlight=False, markup=False)
    with screen.capture() as shown:
        for table in status_tables({**STATUS, "stacks": [stack]}):
            screen.print(table)
    rows = {tuple(line.split()) for line in shown.get().splitlines()}
    for row in (
        *("parents: r1 first 7,000, skew ms 1.5", "parents: r2 first 8, skew ms 0.0"),
        *("links: 1 dropped 3, peers address 1.2.3.4:5; address 1.2.3.4:6", "children -"),
    ):
        assert tuple(row.split()) in rows, row


def test_an_answer_of_another_version_is_shown() -> None:
    assert len(list(status_tables({}))) == 5


def test_a_missing_right_is_reported_with_advice() -> None:
    node = FakeNode(answers={"status": NotAllowed("account 'x' may not administer this node")})
    result = run(node, "status")
    assert result.exit_code == 1
    assert "may not administer this node; ask the node's administrator" in result.stderr
