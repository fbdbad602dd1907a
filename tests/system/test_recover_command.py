from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from examples.free_ports import free_port
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.test_cli import json_lines, run_command, start_command
from tests.system.test_full_disk import http_request
from tests.system.test_metrics import metric_values
from tests.system.traffic import POLL_SECONDS

pytestmark = pytest.mark.system

EVENTS = 300


@pytest.fixture
def metrics() -> int:
    return free_port()


@pytest.fixture
def node(tmp_path: Path, metrics: int) -> Iterator[NodeProcess]:
    """All its events are in the archive."""
    configuration = (
        f'[metrics]\nendpoint = "tcp:port={metrics}:interface=127.0.0.1"\n'
        '[archive]\nevery = "0.2s"\n[recovery]\nengine = "local"\n'
    )
    with NodeProcess(tmp_path / "node", configuration) as running:
        flights = "".join(f"<flight><id>{n}</id><flightleg/></flight>" for n in range(EVENTS))
        run_command(running, "pub", "-", stdin=flights)
        wait_for_status(running, lambda report: report["archive"]["behind"] == 0)
        yield running
        assert "Traceback" not in running.log()


def wait_for_status(node: NodeProcess, reached: Any) -> Any:
    async def ask() -> Any:
        async with connect(node.endpoint) as client:
            async with asyncio.timeout(PATIENCE):
                while not reached(report := (await client.ask("status"))["recovery"]):
                    await asyncio.sleep(POLL_SECONDS)
            return report

    return asyncio.run(ask())


def run_on_terminal(node: NodeProcess, *arguments: str, interrupt: str = "") -> tuple[str, int]:
    """Send Ctrl-C when the terminal shows `interrupt`."""
    master, slave = pty.openpty()
    environment = {"XMLBROKER_NODE": node.endpoint, "TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            data = os.read(master, 65536)
        except OSError:
            # Linux reports the end of a terminal as an error.
            break
        shown += data
        if interrupt and interrupt.encode() in shown:
            process.send_signal(signal.SIGINT)
            interrupt = ""
    os.close(master)
    return shown.decode(errors="replace"), process.wait(PATIENCE)


def lose_all_but_the_archive(node: NodeProcess) -> None:
    """Only the archive has the events of the old origin."""
    node.stop()
    for each in node.data.iterdir():
        if each.name == "archive":
            continue
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink()
    node.start()


def numbers(out: str) -> list[int]:
    return [int(line["place"].rpartition(":")[2]) for line in json_lines(out)]


def test_events_are_replayed_between_two_ends(node: NodeProcess) -> None:
    out, err = run_command(node, "recover")
    assert numbers(out) == list(range(1, EVENTS + 1))
    assert {line["liveness"] for line in json_lines(out)} == {"recovery"}
    assert err == f"{EVENTS} events\n"
    epoch = json_lines(out)[0]["place"].rpartition(":")[0]
    out, _ = run_command(node, "recover", "--since", f"{epoch}:100", "--until", f"{epoch}:150")
    assert numbers(out) == list(range(101, 151))
    out, _ = run_command(
        node, "recover", "/flight[id > 289]", "--last", "4", "--since", "1h", status=2
    )
    out, _ = run_command(node, "recover", "/flight[id < 290]", "--last", "4", "--payload")
    assert re.findall(r"<id>(\d+)</id>", out) == ["286", "287", "288", "289"]
    assert run_command(node, "recover", "--until", "1h ago")[1] == "0 events\n"
    out, err = run_command(node, "recover", "--last-per", "/flight/id mod 10", "/flight[id < 100]")
    assert (numbers(out), err) == (list(range(91, 101)), "10 events\n")
    out, _ = run_command(node, "recover", "--last-per", "stream")
    assert numbers(out) == [EVENTS]
    _, err = run_command(node, "recover", "--last-per", "/flight[", status=1)
    assert "the key '/flight['" in err


def test_events_are_replayed_by_their_own_times(node: NodeProcess) -> None:
    times = ("1970-01-01T00:00:00Z", "2200-01-01T00:00:01Z", "2200-01-01T00:00:02Z")
    texts = "".join(f"<flight><id>{at}</id><flightleg/></flight>" for at in (*times, "never"))
    out, err = run_command(node, "pub", "-", "--time", "/flight/id", stdin=texts, status=1)
    assert json.loads(out)["durable"] == 3
    assert "--time /flight/id: 'never' is not a time" in err
    wait_for_status(node, lambda report: report["archive"]["behind"] == 0)
    lose_all_but_the_archive(node)

    def replay(*options: str) -> list[int]:
        out, _ = run_command(node, "recover", "--json", *options)
        return [line["time"] for line in json_lines(out)]

    second = 7_258_118_401_000
    assert replay("--time-until", "2300-01-01") == [0, second, second + 1_000]
    assert replay("--time-since", times[2]) == [second + 1_000]
    assert replay("--time-until", "2199-12-31") == [0]
    began = time.monotonic()
    paced = ("--pace", "2", "--pace-by", "time")
    assert replay("--time-since", "2200-01-01", *paced) == [second, second + 1_000]
    assert time.monotonic() - began >= 0.5


def test_interrupted_replay_resumes_at_the_printed_position(
    node: NodeProcess, metrics: int
) -> None:
    replay = start_command(node, "recover", "--rate", "50")
    assert replay.stdout is not None
    first = [replay.stdout.readline() for _ in range(10)]
    replay.send_signal(signal.SIGINT)
    rest, err = replay.communicate(timeout=PATIENCE)
    assert replay.returncode == 130
    had = numbers("".join(first) + rest)
    found = re.fullmatch(r"stopped after (\d+) events; continue with --since (\S+)\n", err)
    assert found is not None, err
    assert int(found[1]) == len(had) < EVENTS
    out, _ = run_command(node, "recover", "--since", found[2])
    assert had + numbers(out) == list(range(1, EVENTS + 1))
    report = wait_for_status(node, lambda report: report["recoveries"]["under_way"] == 0)
    assert (report["recoveries"]["begun"], report["recoveries"]["cancelled"]) == (2, 1)
    assert report["archive"]["runs"] and report["archive"]["events"] == EVENTS
    assert report["replays"]["processes"] == 0
    page = metric_values(http_request(metrics, "/metrics")[1])
    assert page["xmlbroker_recoveries_total"] == {"": 2}
    assert page["xmlbroker_recoveries_cancelled_total"] == {"": 1}
    assert page["xmlbroker_recovered_events_total"] == report["recoveries"]["events"]
    assert page["xmlbroker_archived_events_total"] == {"": EVENTS}
    assert page["xmlbroker_archive_behind"] == {"": 0}
    assert page["xmlbroker_archiver_up"] == {"": 1}


def test_terminal_shows_progress(node: NodeProcess, metrics: int) -> None:
    shown, status = run_on_terminal(node, "recover", "--explain")
    assert status == 0
    place = json_lines(run_command(node, "recover", "--last", "1")[0])[0]["place"].partition(":")[2]
    assert f"after 0:0, up to {place}, {EVENTS} places: this node's log" in shown
    lose_all_but_the_archive(node)
    shown, status = run_on_terminal(node, "recover", "--rate", "50", interrupt="rows read")
    assert status == 130
    assert f"the archive: {EVENTS} of {EVENTS} rows read" in shown
    assert "<flight><id>0</id><flightleg/></flight>" in shown
    assert "continue with --since" in shown
    report = wait_for_status(node, lambda report: report["recoveries"]["under_way"] == 0)
    assert report["replays"]["runs"] and report["replays"]["processes"] == 1
    assert metric_values(http_request(metrics, "/metrics")[1])["xmlbroker_replayer_up"] == {"": 1}
    shown, status = run_on_terminal(node, "recover", "--explain")
    assert status == 0
    assert "1. the archive: it has all past events" in shown
    shown, _ = run_on_terminal(node, "status")
    assert "archive: behind" in shown and "recoveries: begun" in shown


def test_recovery_leaves_the_durable_position_unchanged(node: NodeProcess) -> None:
    me = ("--durable", "d", "--client-id", "me")
    run_command(node, "sub", "/flight[id > 9]", *me, "--from", "all", "--count", "40")
    for _ in range(2):
        out, _ = run_command(node, "recover", *me)
        assert numbers(out) == list(range(51, EVENTS + 1))
    (report,) = json_lines(run_command(node, "recover", "--explain", *me)[0])
    assert (report["query"], report["durable"], report["places"]) == ("/flight[id > 9]", "d", 250)
    (origin,) = report["origins"]
    assert [part["source"] for part in origin["parts"]] == ["log"]
    _, err = run_command(node, "recover", "--durable", "e", "--client-id", "me", status=1)
    assert err.startswith("xmlbroker: this node has no durable subscription 'e' of client 'me'; ")


def test_refusals_are_one_line(node: NodeProcess) -> None:
    epoch = json_lines(run_command(node, "recover", "--last", "1")[0])[0]["place"].rpartition(":")[
        0
    ]
    for arguments, message in (
        (("/flight[",), "(line 1, column 9); quote the whole query"),
        (("--since", f"{epoch}:9999"), "lies in the future of"),
        (("--until", f"{epoch}:9999"), "lies in the future of"),
        (("--explain", "//v:x"), "--namespace v=URI"),
    ):
        out, err = run_command(node, "recover", *arguments, status=1)
        assert out == "" and len(err.splitlines()) == 1
        assert message in err
