from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from broker.errors import AuthenticationFailed, GaveUp, NotAllowed, NotValid
from broker.event.envelope import SecurityLevel
from tests.cli.fake_node import FakeClient, FakeNode, Published, run

FLIGHT = "<flight><id>%d</id><flightleg/></flight>"


def flights(folder: Path, count: int) -> Path:
    file = folder / "flights.xml"
    file.write_text("\n".join(FLIGHT % number for number in range(count)))
    return file


def summary(text: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text)
    return content


def test_a_file_is_published_and_summed_up_in_one_line(tmp_path: Path) -> None:
    node = FakeNode()
    result = run(node, "pub", str(flights(tmp_path, 12)))
    assert result.exit_code == 0, result.output
    assert summary(result.stdout)["durable"] == 12
    assert [each.payload for each in node.published] == [(FLIGHT % n).encode() for n in range(12)]
    assert node.published[0].stream == "flight"
    assert node.closed == 1


def test_options_set_stream_type_and_level(tmp_path: Path) -> None:
    node = FakeNode()
    file = str(flights(tmp_path, 1))
    options = ("--stream", "a.b", "--type", "mine", "3.1", "--security-level", "high")
    assert run(node, "pub", file, *options).exit_code == 0
    published = node.published[0]
    assert published.stream == "a.b"
    assert (published.event_type.name, published.event_type.version) == ("mine", "3.1")
    assert published.event_type.security_level is SecurityLevel.HIGH


def test_a_pipe_is_published() -> None:
    node = FakeNode()
    result = run(node, "pub", "-", stdin=FLIGHT % 1 + FLIGHT % 2)
    assert summary(result.stdout)["durable"] == 2


def test_output_of_sub_can_be_published_again() -> None:
    line = {"stream": "s.t", "type": "flight", "version": "1.1", "level": "low", "liveness": "live"}
    lines = [
        json.dumps({**line, "place": "o:1:1", "payload": FLIGHT % 1}),
        json.dumps({"gap": {"first": "o:1:2", "last": "o:1:3", "count": 2, "reason": "slow"}}),
    ]
    node = FakeNode()
    result = run(node, "pub", "-", stdin="\n".join(lines))
    assert result.exit_code == 0, result.output
    assert len(node.published) == 1
    assert node.published[0].stream == "s.t"
    assert node.published[0].event_type.security_level is SecurityLevel.LOW


def test_the_time_of_an_event_is_that_of_its_payload(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    texts = ("2026-12-01T05:00:00.25Z", " 1700000000000 ", "", "1969-12-31", "today", "27205959")
    file.write_text("".join(f"<p:a xmlns:p='u:a'><p:t>{text}</p:t></p:a>" for text in texts))
    options = ("--type", "a", "1.0", "--time", "//q:t", "--namespace", "q=u:a")
    node = FakeNode()
    result = run(node, "pub", str(file), *options)
    times = [each.rest["time"] for each in node.published]
    assert times == [1_796_101_200_250, 1_700_000_000_000, None]
    assert result.exit_code == 1
    assert "--time //q:t: the event's time -86400000 is not from 0 to" in result.stderr
    assert result.stderr.count("is not a time: ISO 8601, or ms since 1970") == 2
    # A line of `sub --json` has the time.
    lines = [json.dumps({"type": "a", "version": "1", "payload": "<a/>", "time": t}) for t in times]
    again = FakeNode()
    assert run(again, "pub", "-", stdin="\n".join(lines)).exit_code == 0
    assert [each.rest["time"] for each in again.published] == times


def test_a_node_without_times_is_named_once(tmp_path: Path) -> None:
    file, note = str(flights(tmp_path, 3)), "too old for the events' own times"
    node = FakeNode(version=7)
    result = run(node, "pub", file, "--time", "'2026-12-01'")
    assert (result.exit_code, result.stderr.count(note)) == (0, 1)
    assert note not in run(node, "pub", file).stderr
    assert note not in run(FakeNode(), "pub", file, "--time", "'2026-12-01'").stderr


def test_a_local_refusal_is_reported_with_status_1(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text(FLIGHT % 1 + "\n<flight><id></flight>\n<?xml version='1.0'?>" + FLIGHT % 2)
    result = run(FakeNode(), "pub", str(file))
    assert result.exit_code == 1
    assert f"{file}:2: not well-formed" in result.stderr
    assert summary(result.stdout) | {"seconds": 0, "events_per_second": 0} == {
        "found": 3,
        "known": 0,
        "sent": 2,
        "durable": 2,
        "duplicates": 0,
        "refused": 1,
        "unconfirmed": 0,
        "seconds": 0,
        "events_per_second": 0,
    }


def test_a_refusal_of_the_node_is_reported_with_status_1(tmp_path: Path) -> None:
    def refuse(published: Published) -> NotValid | None:
        return NotValid("expecting id") if b">1<" in (published.payload or b"") else None

    file = flights(tmp_path, 3)
    result = run(FakeNode(refuse=refuse), "pub", str(file))
    assert result.exit_code == 1
    assert result.stderr == f"{file}:2: refused by the node: expecting id\n"
    assert summary(result.stdout)["durable"] == 2


def test_names_of_files_can_not_command_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "a\x1b[2Jb"
    file.write_text("<a>")
    result = run(FakeNode(), "pub", str(file))
    assert "\x1b" not in result.stderr
    assert "a\\x1b[2Jb:1: not well-formed" in result.stderr


def test_fail_fast_ends_at_the_first_refusal(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text("<a></b>" + "<?xml version='1.0'?>" + FLIGHT % 1)
    node = FakeNode()
    assert run(node, "pub", "--fail-fast", str(file)).exit_code == 1
    assert node.published == []


def test_a_dry_run_reads_everything_and_asks_no_node(tmp_path: Path) -> None:
    node = FakeNode()
    result = run(node, "pub", "--dry-run", str(flights(tmp_path, 5)))
    assert result.exit_code == 0
    assert summary(result.stdout)["found"] == 5
    assert node.connections == []
    (tmp_path / "bad.xml").write_text("<a>")
    result = run(node, "pub", "--dry-run", str(tmp_path))
    assert result.exit_code == 1
    assert summary(result.stdout)["refused"] == 1


def test_a_pace_waits_by_the_events_times(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text(
        "".join(
            f"<flight><id>1</id><timestamp>2026-11-20T12:00:{second}Z</timestamp></flight>"
            for second in ("00.000", "10.000", "30.000")
        )
    )
    result = run(FakeNode(), "pub", "--pace", "1000", str(file))
    assert summary(result.stdout)["durable"] == 3
    # A thousandth of 30 seconds.
    assert summary(result.stdout)["seconds"] >= 0.03


def test_a_rate_spreads_the_events(tmp_path: Path) -> None:
    result = run(FakeNode(), "pub", "--rate", "100", str(flights(tmp_path, 4)))
    assert summary(result.stdout)["seconds"] >= 0.03


def test_an_interrupt_waits_for_receipts_and_prints_the_counts(tmp_path: Path) -> None:
    node = FakeNode()

    def interrupt(_: FakeClient) -> None:
        if len(node.published) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    node.on_publish = interrupt
    result = run(node, "pub", "--rate", "200", str(flights(tmp_path, 2000)))
    assert result.exit_code == 130
    durable = summary(result.stdout)["durable"]
    assert 3 <= durable < 2000
    assert f"{durable} of {durable} events are durable" in result.stderr


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (GaveUp("no node answered"), "twistd -n xmlbroker"),
        (AuthenticationFailed("wrong"), "--secret-file"),
        (NotAllowed("no right"), "that right"),
    ],
)
def test_an_unreachable_node_is_one_line(tmp_path: Path, error: Any, advice: str) -> None:
    result = run(FakeNode(unreachable=error), "pub", str(flights(tmp_path, 1)))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(f"xmlbroker: {error.text}; ")
    assert advice in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("-", "--rate", "1", "--pace", "1"),
        ("-", "--rate", "0"),
        ("-", "--time-from", "count(a)"),
        ("-", "--security-level", "top"),
        ("-", "--type", "x"),
    ],
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...]) -> None:
    node = FakeNode()
    assert run(node, "pub", *arguments).exit_code == 2
    assert node.connections == []


def test_a_wrong_stream_is_reported_before_reading() -> None:
    result = run(FakeNode(), "pub", "-", "--stream", "a/../b")
    assert result.exit_code == 1
    assert "a/../b" in result.stderr
