from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from broker.cli.explanation.tables import explanation_tables
from broker.errors import BadQuery, NotAllowed
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from tests.cli.fake_node import FakeNode, run

FLIGHT = "<flight><id>UAL1</id><flightleg><altitude>{}</altitude></flightleg></flight>"
HIGH = "/flight/flightleg[altitude > 300]"


def file_with(folder: Path, *altitudes: int) -> str:
    file = folder / "flight.xml"
    file.write_text("".join(FLIGHT.format(altitude) for altitude in altitudes))
    return str(file)


def offline(*arguments: str, stdin: str | None = None) -> tuple[int, Any]:
    node = FakeNode()
    result = run(node, "explain", *arguments, "--offline", stdin=stdin)
    assert node.connections == []
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


def shown(content: Any) -> str:
    screen = Console(width=160, file=io.StringIO(), highlight=False, markup=False)
    with screen.capture() as capture:
        for table in explanation_tables(content):
            screen.print(table)
    return capture.get()


def test_an_event_that_matches_is_status_0_and_one_that_does_not_1(tmp_path: Path) -> None:
    status, content = offline(HIGH, file_with(tmp_path, 310))
    assert status == 0
    assert content["explanation"]["event"]["matches"] is True
    status, content = offline(HIGH, file_with(tmp_path, 290))
    assert status == 1
    event = content["explanation"]["event"]
    assert (
        event["finding"]["note"] == "there is 1 /flight/flightleg, but none with [altitude > 300]"
    )
    (answer,) = content["explanation"]["types"]
    assert answer["alternatives"][0]["comparisons"][0]["paths"] == ["/flight/flightleg/altitude"]


def test_a_query_alone_is_explained(tmp_path: Path) -> None:
    status, content = offline(HIGH)
    assert status == 0
    assert content["explanation"]["event"] is None
    assert content["explanation"]["alternatives"][0]["literals"] == [[">", "300"]]


def test_a_path_of_no_known_type_is_a_warning() -> None:
    status, content = offline("/flight/flightlegg/altitude > 300")
    assert status == 0
    (warning,) = content["warnings"]
    assert "no element 'flightlegg'" in warning
    assert "no element 'flightlegg'" in shown(content)
    assert offline(HIGH)[1]["warnings"] == []


def test_a_whole_event_is_read_from_a_pipe_as_it_is() -> None:
    event_id, kind = EventId("c", 5, 9, 3), EventType("flight", "1.0")
    document = write_event(event_id, "asdi.zbw", kind, FLIGHT.format(310).encode())
    query = "$StreamId = 'asdi.zbw' and $SequenceNumber = 9"
    status, content = offline(query, "-", stdin=document.decode())
    assert (status, content["explanation"]["event"]["stream"]) == (0, "asdi.zbw")


def test_the_stream_decides_too(tmp_path: Path) -> None:
    file = file_with(tmp_path, 310)
    assert offline(HIGH, file, "--streams", "flight")[0] == 0
    status, content = offline(HIGH, file, "--streams", "asdi.>")
    assert (status, content["subscription"]["stream"]) == (1, False)


def test_prefixes_are_bound(tmp_path: Path) -> None:
    status, _ = offline("/v:VOEvent", "--namespace", "v=http://www.ivoa.net/xml/VOEvent/v2.0")
    assert status == 0
    status, message = offline("/v:VOEvent")
    assert status == 2
    assert "the prefix 'v' is not bound" in message


def test_an_invalid_event_is_status_2(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text("<flight><oops/></flight>")
    status, content = offline(HIGH, str(file))
    assert (status, content["explanation"]["event"]["refused"][0]) == (2, "not-valid")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no event"),
        (FLIGHT * 2, "holds more than one event"),
        ("<flight><id>", "flight.xml:1: not well-formed"),
        ("<mine/>", "is not one of VOEvent"),
        ("{}", "is not XML"),
        ("nonsense", "neither XML nor"),
    ],
)
def test_a_file_that_is_no_single_event_is_status_2(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "flight.xml"
    file.write_text(text)
    status, message = offline(HIGH, str(file))
    assert status == 2
    assert told in message
    assert offline(HIGH, str(tmp_path / "none.xml"))[0] == 2


def test_a_users_own_type_is_found_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "catalog.xml").write_text(
        '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">'
        '<public publicId="-//xmlbroker//DTD alert 1.0//EN" uri="alert-1.0.dtd"/></catalog>'
    )
    (tmp_path / "alert-1.0.dtd").write_text(
        '<!ENTITY % Mspaces.content ", alert">\n<!ENTITY % Mspaces.envelope\n'
        'PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">\n'
        "%Mspaces.envelope;\n<!ELEMENT alert (#PCDATA)>\n"
    )
    (tmp_path / "a.xml").write_text("<alert>fire</alert>")
    wanted = ("alert = 'x' or . = 'fire'", str(tmp_path / "a.xml"), "--type", "alert", "1.0")
    status, content = offline(*wanted, "--dtd", str(tmp_path))
    assert status == 0, content
    status, content = offline(*wanted)
    assert (status, content["explanation"]["event"]["refused"][0]) == (2, "unknown-type")
    (tmp_path / "catalog.xml").write_text("<")
    assert offline(*wanted, "--dtd", str(tmp_path))[0] == 2


ANSWER: dict[str, Any] = offline(HIGH)[1]


def test_a_node_is_asked_with_the_event(tmp_path: Path) -> None:
    node = FakeNode(answers={"explain": ANSWER})
    file = file_with(tmp_path, 290)
    result = run(node, "explain", HIGH, file, "--streams", "a.>", "--namespace", "v=urn:v")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == ANSWER
    ((what, arguments),) = node.asked
    assert what == "explain"
    assert json.loads(arguments.pop("namespaces")) == {"v": "urn:v"}
    assert arguments == {"query": HIGH, "streams": "a.>"}
    assert FLIGHT.format(290).encode() in node.asked_about[0]


def test_the_only_argument_beside_a_client_is_the_event(tmp_path: Path) -> None:
    subscription = {"verdict": "query", "query": HIGH, "pattern": ">", "reason": "none"}
    client = {
        "client": "desk",
        "connected": ["connected"],
        "accepted": True,
        "subscriptions": [subscription],
        "left_out": 0,
    }
    answer = {"explanation": None, "subscription": None, "client": client}
    node = FakeNode(answers={"explain": answer})
    file = file_with(tmp_path, 290)
    assert run(node, "explain", file, "--client", "desk").exit_code == 1
    assert node.asked[-1][1].keys() == {"client", "namespaces"}
    assert node.asked_about[-1]
    assert run(node, "explain", HIGH, file, "--client", "desk").exit_code == 1
    assert node.asked[-1][1].keys() == {"client", "query", "namespaces"}
    subscription["verdict"] = "catching-up"
    assert run(node, "explain", file, "--client", "desk").exit_code == 0
    text = shown(answer)
    assert "Client desk" in text and HIGH in text and "catching-up" in text


@pytest.mark.parametrize("error", [BadQuery("no", line=1, column=3), NotAllowed("no right")])
def test_an_error_of_the_node_is_status_2(error: Exception) -> None:
    result = run(FakeNode(answers={"explain": error}), "explain", HIGH)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"xmlbroker: {error}")


def test_wrong_usage_is_reported() -> None:
    assert run(FakeNode(), "explain").exit_code == 2
    result = run(FakeNode(), "explain", "x", "--client", "c", "--offline")
    assert "--client needs a node" in result.stderr


def test_tables_show_evaluation_and_match(tmp_path: Path) -> None:
    text = shown(offline(HIGH, file_with(tmp_path, 290), "--streams", "x")[1])
    for part in (
        HIGH,
        "bitmaps by sorted bounds",
        "464 nodes",
        "µs",
        "flight 1.0",
        "by the index",
        "/flight/flightleg/altitude > 300",
        "pattern matches the stream",
        "but none with [altitude > 300]",
        "no /flight/flightleg/altitude is '290'",
    ):
        assert part in text


def test_tables_show_why_the_index_is_not_used(tmp_path: Path) -> None:
    text = shown(offline("count(//altitude[. > 3]) > 1", file_with(tmp_path, 290))[1])
    assert "by evaluation" in text
    assert "because the argument of count() depends on values" in text
    assert "it matches every event" in shown(offline("true()")[1])
    assert "no shape is known" in shown(ANSWER)


def test_an_events_content_can_not_command_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "x.xml"
    file.write_text(FLIGHT.format("9\u009b2J"))
    text = shown(offline(HIGH, str(file))[1])
    assert "\u009b" not in text
    assert "x9b2J" in text
