from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest

from broker.cli.recovery_plan import plan_lines
from broker.errors import BadPosition, BadQuery, UnknownSubscription
from broker.event.envelope import MAX_EVENT_TIME
from broker.event.place import Position
from tests.cli.fake_node import FakeNode, gap, received, run

PLAN: dict[str, Any] = {
    "query": "/flight",
    "streams": "asdi.>",
    "namespaces": {"v": "urn:v"},
    "durable": "mine",
    "position": "origin:1:7",
    "moved_to": "",
    "steps": [
        {"source": "archive", "origins": ["origin"], "why": "it has all past events"},
        {"source": "logs", "origins": ["b"], "why": "events that are not archived yet"},
    ],
    "origins": [
        {
            "origin": "origin",
            "own": True,
            "after": [1, 7],
            "upto": [1, 2000],
            "places": 1993,
            "parts": [
                {
                    "source": "archive",
                    "after": [1, 7],
                    "upto": [1, 9],
                    "places": 2,
                    "whom": [],
                    "why": "x",
                },
                {
                    "source": "logs",
                    "after": [1, 9],
                    "upto": None,
                    "places": None,
                    "whom": ["alps/\x1bb"],
                    "why": "y",
                },
            ],
            "gaps": [{"after": [1, 3], "upto": [1, 4], "places": 1, "why": "retention took it"}],
        }
    ],
    "others": True,
    "archive": {"available": True, "told": True},
    "busy": 3,
    "places": 1993,
}


def test_a_replay_is_printed_and_ends_by_itself() -> None:
    node = FakeNode(stored=[received(1), gap(2, 3), received(4)])
    result = run(node, "recover", "/flight", "--streams", "asdi.>", "--namespace", "v=urn:v")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("place") for line in lines] == ["origin:1:1", None, "origin:1:4"]
    assert lines[1]["gap"]["count"] == 2
    assert result.stderr.splitlines()[-1] == "2 events, 1 gaps"
    (asked,) = node.subscriptions
    assert (asked["query"], asked["streams"]) == ("/flight", "asdi.>")
    assert asked["namespaces"] == {"v": "urn:v"}
    assert node.closed == 1
    assert node.asked == []


def test_the_bounds_and_the_speed_are_passed_to_the_client() -> None:
    node = FakeNode()
    at = Position({"origin": (1, 7), "other": (2, 3)})
    place = "origin:1:7,other:2:3"
    run(node, "recover", "--since", place, "--since", "1000", "--until", "1970-01-01T00:00:05Z")
    run(node, "recover", "--until", "origin:1:7,other:2:3", "--pace", "2.5", "--rate", "30")
    run(node, "recover", "--last", "9")
    times = ("--time-since", "1970-01-01T00:00:01Z", "--time-until", "9000")
    run(node, "recover", *times, "--pace", "2", "--pace-by", "time")
    run(node, "recover", "--time-since", "1970-01-01")
    both, end, last, timed, any_time = node.subscriptions
    assert any_time["event_times"] == (0, MAX_EVENT_TIME)
    assert (both["since"], both["since_time"], both["until_time"]) == (at, 1000, 5000)
    assert (end["until"], end["pace"], end["rate"], end["since"]) == (at, 2.5, 30, None)
    assert (last["last"], last["since_time"], last["until_time"]) == (9, 0, 0)
    assert (timed["event_times"], timed["paced_by_time"]) == ((1000, 9000), True)
    # Nodes of earlier versions do the rest.
    assert not {"event_times", "paced_by_time"} & {*both, *end, *last}


def test_an_interrupted_replay_names_the_option_to_continue_with() -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    node = FakeNode(stored=[received(1), received(2)], on_wait=interrupt, ends=False)
    result = run(node, "recover", "--since", "1000")
    assert result.exit_code == 130
    assert len(result.stdout.splitlines()) == 2
    assert (
        result.stderr == "stopped after 2 events; continue with --since origin:1:2 --since 1000\n"
    )
    result = run(node, "recover", "--last", "2")
    assert result.stderr == "stopped after 2 events; a new run begins anew\n"


def test_a_durable_subscription_sets_the_start_and_the_query() -> None:
    node = FakeNode(answers={"recover-explain": PLAN})
    result = run(node, "recover", "--durable", "mine", "--client-id", "me")
    assert result.exit_code == 0, result.output
    assert node.asked == [("recover-explain", {"durable": "mine", "namespaces": "{}"})]
    (asked,) = node.subscriptions
    assert (asked["query"], asked["streams"]) == ("/flight", "asdi.>")
    assert asked["since"] == Position({"origin": (1, 7)})
    assert asked["namespaces"] == {"v": "urn:v"}


def test_a_pipe_gets_the_plan_as_json() -> None:
    node = FakeNode(answers={"recover-explain": PLAN})
    result = run(node, "recover", "--explain", "/flight", "--since", "origin:1:7")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == PLAN
    said = {"query": "/flight", "since": "origin:1:7", "namespaces": "{}"}
    assert node.asked == [("recover-explain", said)]
    assert node.subscriptions == []


def test_a_terminal_gets_the_plan_as_text() -> None:
    text = list(plan_lines(PLAN))
    assert text[0] == "Durable subscription mine: /flight on streams asdi.>"
    assert "  1. the archive: it has all past events" in text
    assert "origin origin (this node): after 1:7, up to 1:2000, 1,993 places" in text
    assert "  after 1:7, up to 1:9, 2 places: the archive" in text
    (logs,) = [line for line in text if "of alps/" in line]
    assert logs.startswith("  after 1:9, to the end, an unknown number of places: logs")
    assert "  after 1:3, up to 1:4, 1 place: no source has it: retention took it" in text
    assert "\x1b" not in "".join(text)
    assert list(plan_lines({}))[-1].startswith("No events are missing")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--since", "yesterday"), "give a time such as"),
        (("--until", "7x"), "a time ago such as 90s, 1h30m or 7d"),
        (("--since", "1h", "--since", "2h"), "at most one position and one time"),
        (("--since", "2h", "--until", "3h"), "--since must be before --until"),
        (("--since", "2999-01-01"), "--since is in the future"),
        (("--since", "1h", "--last", "3"), "--last sets the start"),
        (("--last", "0"), "0 is not in the range x>=1"),
        (("--pace-by", "time"), "--pace-by needs --pace"),
        (("--time-since", "9", "--time-until", "9"), "--time-since must be before --time-until"),
        (("--time-until", "1970-01-01"), "--time-since must be before --time-until"),
        (("--time-since", "o:1:1"), "'o:1:1' is a position: give a time"),
        (("--time-until", "soon"), "give a time such as"),
        (("--pace", "0"), "0.0 is not in the range x>0"),
        (("--rate", "1.5"), "'1.5' is not a valid integer"),
        (("--durable", "d"), "--durable needs --client-id or --account"),
        (("--durable", "d", "--client-id", "me", "--last", "1"), "--durable sets the start"),
        (("--namespace", "v"), "is neither PREFIX=URI nor"),
    ],
)
def test_invalid_options_are_reported_before_a_node_is_asked(
    arguments: tuple[str, ...], says: str
) -> None:
    node = FakeNode()
    result = run(node, "recover", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert node.connections == []


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            BadQuery("expected an operand", line=1, column=9),
            "(line 1, column 9); correct the query",
        ),
        (BadPosition("it lies in the future"), "in the future; begin at a time, or at a position"),
        (UnknownSubscription("none is known"), "none is known; `xmlbroker durable list` lists"),
    ],
)
def test_a_refusal_of_the_node_is_one_line_with_advice(error: Exception, says: str) -> None:
    node = FakeNode(answers={"recover-explain": error}, bad_query=error)  # type: ignore[arg-type]
    for arguments in (("--explain",), ()):
        result = run(node, "recover", *arguments)
        assert result.exit_code == 1
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_bad_pattern_is_reported() -> None:
    result = run(FakeNode(), "recover", "--streams", "a..b")
    assert (result.exit_code, "stream pattern 'a..b'" in result.stderr) == (1, True)
