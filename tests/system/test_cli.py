"""The command line against a real node: each command is a process."""

from __future__ import annotations

import json
import os
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.event.json_payload import NAMESPACE as JSON_NAMESPACE
from broker.identity import hash_secret
from broker.testing.events import air_traffic
from tests.system.fork_server import ForkedProcess
from tests.system.node_process import PATIENCE, ROOT, NodeProcess

pytestmark = pytest.mark.system

VOEVENTS = 300


def start_command(node: NodeProcess, *arguments: str, with_input: bool = False) -> ForkedProcess:
    return ForkedProcess(
        "xmlbroker",
        arguments,
        folder=ROOT,
        environment={**os.environ, "XMLBROKER_NODE": node.endpoint},
        with_input=with_input,
        with_errors=True,
    )


def run_command(
    node: NodeProcess, *arguments: str, stdin: str | None = None, status: int = 0
) -> tuple[str, str]:
    process = start_command(node, *arguments, with_input=stdin is not None)
    out, err = process.communicate(stdin, timeout=2 * PATIENCE)
    assert process.returncode == status, (out[-1000:], err[-1000:])
    assert "Traceback" not in err
    return out, err


def json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "node") as running:
        yield running
        assert "Traceback" not in running.log()


@pytest.fixture(scope="session")
def voevents(shared_data: Path) -> list[bytes]:
    packets: list[bytes] = []
    with tarfile.open(shared_data / "voevent" / "2014-04.001.tar.bz2", "r|*") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                packets.append(content.read())
            if len(packets) == VOEVENTS:
                break
    return packets


def test_voevents_are_published_and_read_back(
    node: NodeProcess, tmp_path: Path, voevents: list[bytes]
) -> None:
    # Each packet starts with an XML declaration, without separators.
    (tmp_path / "packets.xml").write_bytes(b"".join(voevents))
    out, err = run_command(node, "pub", str(tmp_path / "packets.xml"))
    (summary,) = json_lines(out)
    assert (summary["found"], summary["durable"], summary["refused"]) == (VOEVENTS, VOEVENTS, 0)
    assert err == ""
    out, err = run_command(node, "sub", "--from", "all", "--json", "--idle", "1")
    received = json_lines(out)
    assert [int(line["place"].rpartition(":")[2]) for line in received] == [
        n + 1 for n in range(VOEVENTS)
    ]
    assert all(
        line["payload"].encode() in packet for line, packet in zip(received, voevents, strict=True)
    )
    assert {(line["type"], line["liveness"]) for line in received} == {("VOEvent", "recovery")}
    assert err == f"{VOEVENTS} events\n"
    tests = sum(b'role="test"' in packet for packet in voevents)
    query = '/*[local-name()="VOEvent" and @role!="test"]'
    out, _ = run_command(node, "sub", query, "--from", "all", "--idle", "1")
    assert len(out.splitlines()) == VOEVENTS - tests


def test_output_of_one_node_is_published_to_another(node: NodeProcess, tmp_path: Path) -> None:
    made = [
        json.dumps({"stream": event.stream, "payload": event.payload.decode()})
        for event in air_traffic(200, seed=1)
    ]
    assert json_lines(run_command(node, "pub", "-", stdin="\n".join(made))[0])[0]["durable"] == 200
    for form in ("--json", "--document"):
        recorded, _ = run_command(node, "sub", "--from", "all", form, "--count", "200")
        with NodeProcess(tmp_path / form) as other:
            assert (
                json_lines(run_command(other, "pub", "-", stdin=recorded)[0])[0]["durable"] == 200
            )
            again, _ = run_command(other, "sub", "--from", "all", "--json", "--count", "200")
        first, _ = run_command(node, "sub", "--from", "all", "--json", "--count", "200")
        for key in ("stream", "type", "version", "level", "payload"):
            assert [line[key] for line in json_lines(again)] == [
                line[key] for line in json_lines(first)
            ]


def test_json_is_published_and_comes_back_as_it_was(node: NodeProcess) -> None:
    quakes = ['{"mag":4.10,"place":"Vík <1>"}', '{"mag":5.5,"place":"a\\u0000\\ud800"}', "[1e400]"]
    run_command(node, "pub", "--json-payload", "-", stdin="\n".join(quakes))
    run_command(node, "pub", "-", stdin="<flight><id>UAL1</id><flightleg/></flight>")
    out, err = run_command(node, "sub", "--json-payload", "--from", "all", "--count", "4")
    assert out.splitlines() == quakes
    assert "of flight is not JSON: <flight> is no element of the mapping" in err
    strong = ("/map/number[@key = 'mag'] > 5", "--namespace", JSON_NAMESPACE)
    found, _ = run_command(node, "sub", *strong, "--json-payload", "--from", "all", "--count", "1")
    assert found.splitlines() == quakes[1:2]


def test_query_and_event_are_explained(node: NodeProcess, tmp_path: Path) -> None:
    flight = "<flight><id>{0}</id><flightleg><altitude>{0}</altitude></flightleg></flight>"
    run_command(node, "pub", "-", stdin="".join(map(flight.format, range(50))))
    query = "/flight/flightleg[altitude > 300]"
    (report,) = json_lines(run_command(node, "explain", query)[0])
    assert sum(answer["shapes"] for answer in report["explanation"]["types"]) <= 2
    out, _ = run_command(node, "explain", query, "-", stdin=flight.format(290), status=1)
    assert json_lines(out)[0]["explanation"]["event"]["matches"] is False
    run_command(node, "explain", query, "-", stdin=flight.format(310), status=0)
    large = flight.format("9" * 400_000)
    (report,) = json_lines(run_command(node, "explain", query, "-", stdin=large)[0])
    assert len(json.dumps(report)) < 20_000
    _, err = run_command(node, "explain", "/flight[", status=2)
    assert err.startswith("xmlbroker: expected an operand")
    (status,) = json_lines(run_command(node, "status", "--json")[0])
    assert [(each["type"], each["version"]) for each in status["types"]] == [("flight", "1.0")]


def test_refused_events_are_reported_with_file_and_line(node: NodeProcess, tmp_path: Path) -> None:
    file = tmp_path / "flights.xml"
    good = "<flight><id>1</id><flightleg/></flight>"
    file.write_text(f"{good}\n<flight>\n<id>2</id>\n<leg/>\n</flight>\n{good}\n")
    out, err = run_command(node, "pub", str(file), status=1)
    assert (json_lines(out)[0]["durable"], json_lines(out)[0]["refused"]) == (2, 1)
    assert err.startswith(f"{file}:2: refused by the node: ")
    assert len(err.splitlines()) == 1


def test_durable_subscription_resumes(node: NodeProcess) -> None:
    flights = "".join(f"<flight><id>{n}</id><flightleg/></flight>" for n in range(20))
    run_command(node, "pub", "-", stdin=flights)
    options = ("--durable", "d", "--client-id", "me", "--payload")
    first, _ = run_command(node, "sub", *options, "--from", "all", "--count", "7")
    rest, _ = run_command(node, "sub", *options, "--idle", "1")
    numbers = [line.split("<id>")[1].split("<")[0] for line in (first + rest).splitlines()]
    assert numbers == [str(n) for n in range(20)]


def test_interrupted_subscriber_exits_cleanly_and_resumes(node: NodeProcess) -> None:
    options = ("--durable", "d", "--client-id", "me", "--from", "all", "--payload")
    run_command(node, "pub", "-", stdin="<flight><id>1</id><flightleg/></flight>")
    subscriber = start_command(node, "sub", *options)
    assert subscriber.stdout is not None
    assert "<id>1</id>" in subscriber.stdout.readline()
    subscriber.send_signal(signal.SIGINT)
    out, err = subscriber.communicate(timeout=PATIENCE)
    assert (subscriber.returncode, out, err) == (0, "", "1 events\n")
    run_command(node, "pub", "-", stdin="<flight><id>2</id><flightleg/></flight>")
    rest, _ = run_command(
        node, "sub", "--durable", "d", "--client-id", "me", "--payload", "--count", "1"
    )
    assert "<id>2</id>" in rest


def test_interrupted_publisher_reports_durable_events(node: NodeProcess) -> None:
    publisher = start_command(node, "pub", "-", with_input=True)
    subscriber = start_command(node, "sub", "--from", "all", "--count", "1")
    assert publisher.stdin is not None
    publisher.stdin.write("<flight><id>1</id><flightleg/></flight>")
    publisher.stdin.flush()
    # The pipe is still open.
    subscriber.communicate(timeout=PATIENCE)
    publisher.send_signal(signal.SIGINT)
    publisher.wait(PATIENCE)
    out, err = publisher.communicate(timeout=PATIENCE)
    assert publisher.returncode == 130
    assert json_lines(out)[0]["durable"] == 1
    assert err.startswith("1 of 1 events are durable")


def test_subscriber_with_a_closed_pipe_exits_quietly(node: NodeProcess) -> None:
    flights = "".join(f"<flight><id>{n}</id><flightleg/></flight>" for n in range(5000))
    run_command(node, "pub", "-", stdin=flights)
    subscriber = start_command(node, "sub", "--from", "all")
    assert subscriber.stdout is not None
    subscriber.stdout.readline()
    subscriber.stdout.close()
    assert subscriber.wait(PATIENCE) == 0
    assert subscriber.stderr is not None
    assert subscriber.stderr.read() == ""
    subscriber.stderr.close()


def test_publisher_survives_a_killed_node(node: NodeProcess) -> None:
    publisher = start_command(node, "pub", "-", "--timeout", "60", with_input=True)
    assert publisher.stdin is not None
    for half in (range(500), range(500, 1000)):
        for n in half:
            publisher.stdin.write(f"<flight><id>{n}</id><flightleg/></flight>")
        publisher.stdin.flush()
        if half.start == 0:
            run_command(node, "sub", "--from", "all", "--count", "1")
            node.kill()
            node.start()
    publisher.stdin.close()
    assert publisher.wait(2 * PATIENCE) == 0
    assert publisher.stdout is not None and publisher.stderr is not None
    (summary,) = json_lines(publisher.stdout.read())
    assert (summary["found"], summary["unconfirmed"]) == (1000, 0)
    assert summary["durable"] + summary["duplicates"] == 1000
    publisher.stdout.close()
    publisher.stderr.close()
    out, _ = run_command(node, "sub", "--from", "all", "--payload", "--idle", "1")
    numbers = [int(line.split("<id>")[1].split("<")[0]) for line in out.splitlines()]
    assert numbers == list(range(1000))


def test_node_reports_its_status_and_dtds(node: NodeProcess) -> None:
    (status,) = json_lines(run_command(node, "status")[0])
    assert status["node"] == "tested"
    assert len(status["sessions"]) == 1
    assert "flight 1.1" in run_command(node, "dtd", "list")[0].splitlines()
    assert "<!ELEMENT timestamp (#PCDATA)>" in run_command(node, "dtd", "show", "flight", "1.1")[0]
    _, err = run_command(node, "dtd", "show", "flight", "9.9", status=1)
    assert len(err.splitlines()) == 1
    _, err = run_command(node, "sub", "//flight[", status=1)
    assert "(line 1, column 10)" in err


def test_accounts_have_their_rights(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    configuration = (
        f'[accounts.feed]\nsecret = "{hash_secret("hush")}"\npublish = ["flight.>", "flight"]\n'
    )
    with NodeProcess(tmp_path / "node", configuration) as node:
        flight = "<flight><id>1</id><flightleg/></flight>"
        me = ("--account", "feed", "--secret-file", str(secret))
        assert json_lines(run_command(node, "pub", "-", *me, stdin=flight)[0])[0]["durable"] == 1
        _, err = run_command(node, "pub", "-", *me, "--stream", "other", stdin=flight, status=1)
        assert err.startswith("stdin:1: refused by the node: ")
        assert err.rstrip().endswith("may not publish to stream 'other'")
        _, err = run_command(node, "pub", "-", stdin=flight, status=1)
        assert "give --account and --secret-file" in err
        _, err = run_command(node, "status", *me, status=1)
        assert "may not administer" in err
