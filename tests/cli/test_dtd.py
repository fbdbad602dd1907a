from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import BadDtd, BrokerError, NotAllowed, TooManyTypes, UnknownType
from broker.event.envelope import EventType
from broker.event.event_id import EventId
from broker.event.writer import write_event
from tests.cli.fake_node import FakeNode, run

OWN = """<!ENTITY % Mspaces.content ", alert">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;
<!ELEMENT alert (what, where*)>
<!ELEMENT what (#PCDATA)>
<!ELEMENT where (#PCDATA)>
"""
#: For subscriptions that the account may see.
REPORT = {
    "type": "alert",
    "version": "1.2",
    "against": "1.1",
    "went": ["/alert/who"],
    "came": ["/alert/where"],
    "changed": [],
    "subscriptions": {"can-not-match-any-more": 1200},
    "affected": [
        {
            "client": "reader",
            "name": "d",
            "effect": "can-not-match-any-more",
            "query": "/alert/who",
            "reason": "there is no who",
        }
    ],
}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "alert-1.2.dtd"
    file.write_text(OWN)
    return file


def test_a_node_lists_its_types_a_line_each() -> None:
    node = FakeNode(answers={"dtd-list": (("asdi", "1.0"), ("flight", "1.1"))})
    assert run(node, "dtd", "list").stdout == "asdi 1.0\nflight 1.1\n"


def test_the_shipped_types_are_listed_without_a_node() -> None:
    node = FakeNode()
    lines = run(node, "dtd", "list", "--local").stdout.splitlines()
    assert "VOEvent 2.0" in lines
    assert "flight 1.1" in lines
    assert node.connections == []


def test_a_node_shows_a_dtd() -> None:
    node = FakeNode(answers={"dtd-show": "<!ELEMENT a EMPTY>\n"})
    assert run(node, "dtd", "show", "flight", "1.1").stdout == "<!ELEMENT a EMPTY>\n"
    assert node.asked == [("dtd-show", {"type": "flight", "version": "1.1"})]


def test_a_shipped_dtd_is_shown_whole_without_a_node() -> None:
    text = run(FakeNode(), "dtd", "show", "--local", "flight", "1.1").stdout
    assert "<!ELEMENT timestamp (#PCDATA)>" in text
    assert "<!ELEMENT Mspaces:StreamId (#PCDATA)>" in text
    assert "<!ENTITY" not in text


def test_an_unknown_type_is_one_line() -> None:
    node = FakeNode(answers={"dtd-show": UnknownType("no DTD for x 1.0")})
    assert run(node, "dtd", "show", "x", "1.0").stderr == "xmlbroker: no DTD for x 1.0\n"
    result = run(node, "dtd", "show", "--local", "x", "1.0")
    assert result.exit_code == 1
    assert "no DTD of x 1.0 is shipped" in result.stderr
    result = run(node, "dtd", "show", "x", "one")
    assert result.exit_code == 1
    assert "'one' is not a version" in result.stderr


def test_a_users_own_dtd_is_checked_with_events(own: Path, tmp_path: Path) -> None:
    good = "<alert><what>fire</what>\n<where>here</where></alert>"
    event = write_event(EventId("c", 1, 1, 1), "s", EventType("alert", "1.2"), good.encode())
    (tmp_path / "good.xml").write_bytes(b"<?xml version='1.0'?>\n" + good.encode() + event)
    result = run(FakeNode(), "dtd", "check", str(own), str(tmp_path / "good.xml"))
    assert result.exit_code == 0, result.output
    assert result.stderr == f"{own}: a DTD for alert 1.2; 2 of 2 events are valid\n"


def test_invalid_events_are_reported_with_file_and_line(own: Path, tmp_path: Path) -> None:
    file = tmp_path / "bad.xml"
    bare = "<alert>\n<what>a</what>\n<who/>\n</alert>\n"
    file.write_text(f"<?xml version='1.0'?>\n{bare}<alert><what></alert>\n")
    result = run(FakeNode(), "dtd", "check", str(own), str(file))
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{file}:2: Element alert content does not follow the DTD")
    assert lines[1].startswith(f"{file}:6: not well-formed")
    assert lines[2].endswith("0 of 2 events are valid")


SCHEMA = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="alert"><xs:complexType><xs:sequence><xs:element name="what" type="xs:int"/>
</xs:sequence></xs:complexType></xs:element></xs:schema>"""


def test_a_schema_is_checked_with_events_and_registered_with_the_dtd(
    own: Path, tmp_path: Path
) -> None:
    schema, file = tmp_path / "alert.xsd", tmp_path / "x.xml"
    schema.write_text(SCHEMA)
    file.write_text("<alert><what>1</what></alert>\n<alert>\n<what>fire</what></alert>")
    result = run(FakeNode(), "dtd", "check", str(own), "--schema", str(schema), str(file))
    lines = result.stderr.splitlines()
    assert lines[0].startswith(f"{file}:3: Element 'what': 'fire' is not a valid value of the")
    assert lines[1] == f"{own}: a DTD and a schema for alert 1.2; 1 of 2 events are valid"
    node = FakeNode(answers={"dtd-add": {**REPORT, "registered": True}})
    assert run(node, "dtd", "add", str(own), "--schema", str(schema)).exit_code == 0
    assert b"<?payload-schema 1 " in node.asked_about[-1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<a/>", "alert.xsd:1: it is no XML Schema: its root element is 'a'"),
        (SCHEMA.replace("xs:int", "nothing"), "the schema can not be used: alert.xsd:2: "),
        (
            SCHEMA.replace("<xs:el", "<xs:include schemaLocation='x.xsd'/><xs:el", 1),
            "alert.xsd:2: x.xsd is not among the given files",
        ),
    ],
)
def test_a_bad_schema_is_reported_with_file_and_line(
    own: Path, tmp_path: Path, text: str, problem: str
) -> None:
    schema = tmp_path / "alert.xsd"
    schema.write_text(text)
    result = run(FakeNode(), "dtd", "add", str(own), "--schema", str(schema))
    assert result.exit_code == 1 and problem in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_invalid_envelope_is_reported_with_its_line(own: Path, tmp_path: Path) -> None:
    event = write_event(EventId("c", 1, 1, 1), "s", EventType("alert", "1.2"), b"<alert/>")
    other = write_event(EventId("c", 1, 1, 1), "s", EventType("flight", "1.0"), b"<flight/>")
    broken = event.replace(b"<Mspaces:Incarnation>1</Mspaces:Incarnation>", b"")
    file = tmp_path / "x.xml"
    file.write_bytes(b"\n".join((event, broken, other)))
    lines = run(FakeNode(), "dtd", "check", str(own), str(file)).stderr.splitlines()
    assert lines[0].startswith(f"{file}:3: Element alert content")
    assert lines[1].startswith(f"{file}:4: ")
    assert lines[2].startswith(f"{file}:7: the event is of type flight 1.0, not alert 1.2")


def test_a_bad_dtd_is_reported_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "alert-1.0.dtd"
    file.write_text(OWN + "<!ELEMENT what EMPTY>\n")
    result = run(FakeNode(), "dtd", "check", str(file))
    assert result.exit_code == 1
    assert result.stderr == f"xmlbroker: {file}:8: element 'what' is declared twice\n"


def test_a_dtd_is_bounded_as_it_is_sent(tmp_path: Path) -> None:
    file = tmp_path / "alert-1.0.dtd"
    file.write_text(
        f"{OWN}<!ENTITY % long '{' '.join(f'a{n} CDATA #IMPLIED' for n in range(200))}'>\n"
        + "".join(f"<!ELEMENT e{n} EMPTY><!ATTLIST e{n} %long;>\n" for n in range(100))
    )
    result = run(FakeNode(), "dtd", "add", str(file))
    assert result.exit_code == 1
    assert "as it is sent to a node, it is longer than 262,144 bytes" in result.stderr


def test_own_modules_are_found_by_a_catalogue_beside_the_dtd(tmp_path: Path) -> None:
    (tmp_path / "catalog.xml").write_text(
        '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog">'
        '<public publicId="-//me//MODULE 1//EN" uri="my.mod"/></catalog>'
    )
    (tmp_path / "my.mod").write_text("<!ELEMENT extra EMPTY>")
    file = tmp_path / "alert-1.0.dtd"
    file.write_text(OWN + '<!ENTITY % my PUBLIC "-//me//MODULE 1//EN" "my.mod">\n%my;\n')
    assert run(FakeNode(), "dtd", "check", str(file)).exit_code == 0


def test_a_type_must_be_named_by_the_file_or_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.dtd"
    file.write_text(OWN)
    result = run(FakeNode(), "dtd", "check", str(file))
    assert result.exit_code == 1
    assert "give --type NAME and --version VERSION" in result.stderr
    for comment, reference in (
        ('<!-- PUBLIC "-//xmlbroker//DTD alert 2.0//EN" "x" -->', "alert 2.0"),
        ('<?xml version="1.0"?>\n<!-- It.\n PUBLIC "-//xmlbroker//DTD alert 3//EN" -->', "alert 3"),
    ):
        file.write_text(comment + OWN)
        assert f"a DTD for {reference};" in run(FakeNode(), "dtd", "check", str(file)).stderr
        changed = run(FakeNode(), "dtd", "check", str(file), "--version", "4.1").stderr
        assert "a DTD for alert 4.1;" in changed
    for comment in (
        '<!-- "-//xmlbroker//DTD a 2.0//EN" -->',
        '<!-- PUBLIC "-//other" -->',
        "<!---->",
    ):
        file.write_text(comment + OWN)
        assert run(FakeNode(), "dtd", "check", str(file)).exit_code == 1
    named = ("--type", "alert", "--version", "2.0")
    assert run(FakeNode(), "dtd", "check", str(file), *named).exit_code == 0


def test_a_missing_dtd_is_one_line(tmp_path: Path) -> None:
    result = run(FakeNode(), "dtd", "check", str(tmp_path / "x-1.0.dtd"))
    assert result.exit_code == 1
    assert "can not be read: No such file" in result.stderr


def test_real_events_are_valid(shared_data: Path) -> None:
    dtds = Path(__file__).resolve().parents[2] / "dtd"
    archive = shared_data / "voevent" / "2020-06.002.tar.bz2"
    result = run(FakeNode(), "dtd", "check", str(dtds / "voevent-2.0.dtd"), str(archive))
    assert result.exit_code == 0, result.output[-500:]
    assert "294 of 294 events are valid" in result.stderr


def test_a_dtd_is_registered_with_a_report(own: Path) -> None:
    node = FakeNode(answers={"dtd-add": REPORT | {"registered": True}})
    result = run(node, "dtd", "add", str(own), "--against", "1.1")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "alert 1.2 against 1.1:",
        "  - /alert/who",
        "  + /alert/where",
        "1,200 subscriptions: can-not-match-any-more",
        "  reader d: can-not-match-any-more: /alert/who",
        "    there is no who",
    ]
    assert "alert 1.2 is registered (content " in result.stderr
    assert node.asked == [("dtd-add", {"type": "alert", "version": "1.2", "against": "1.1"})]
    # The text is self-contained.
    (sent,) = node.asked_about
    assert b"<!ELEMENT alert" in sent and b"<!ENTITY" not in sent


def test_a_known_dtd_is_reported_as_registered_already(own: Path) -> None:
    node = FakeNode(answers={"dtd-add": {"against": "", "registered": False}})
    result = run(node, "dtd", "add", str(own), "--type", "warning", "--version", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout == "the node has no older version to compare with\n"
    assert "warning 3 was registered already" in result.stderr
    assert node.asked == [("dtd-add", {"type": "warning", "version": "3", "against": ""})]


@pytest.mark.parametrize(
    "error",
    [
        NotAllowed("the account may not register types 'alert'"),
        UnknownType("no DTD is known here for alert 1.1"),
        TooManyTypes("the account has 1000 DTDs here"),
        BadDtd("another DTD is known for alert 1.2: a changed DTD needs a new version"),
    ],
)
@pytest.mark.parametrize(
    "command", [("dtd", "add"), ("dtd", "check", "--against", "1.1")], ids=["add", "check"]
)
def test_a_refusal_of_the_node_is_one_line(
    own: Path, command: tuple[str, ...], error: BrokerError
) -> None:
    node = FakeNode(answers={"dtd-add": error, "dtd-check": error})
    result = run(node, *command, str(own))
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(f"xmlbroker: {error.text}")
    assert "registered" not in result.stderr and "Traceback" not in result.output


def test_a_bad_file_is_not_sent_to_the_node(tmp_path: Path, own: Path) -> None:
    bad = tmp_path / "alert-1.3.dtd"
    bad.write_text(OWN + "<!ELEMENT what EMPTY>\n")
    unnamed = tmp_path / "alert.dtd"
    unnamed.write_text(OWN)
    node = FakeNode()
    for file, *more in (
        (bad,),
        (unnamed,),
        (tmp_path / "not-there-1.0.dtd",),
        (own, "--version", "one"),
        (own, "--type", "al ert", "--version", "1.0"),
    ):
        for command in (("add",), ("check", "--against", "1.1")):
            result = run(node, "dtd", *command, str(file), *map(str, more))
            assert result.exit_code == 1, result.output
            assert result.stderr.startswith("xmlbroker: ")
    assert run(node, "dtd", "add").exit_code == 2
    assert node.connections == []


def test_a_check_against_a_version_reports_changes_and_registers_nothing(
    own: Path, tmp_path: Path
) -> None:
    node = FakeNode(answers={"dtd-check": REPORT})
    result = run(node, "dtd", "check", str(own), "--against", "1.1")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[:2] == ["alert 1.2 against 1.1:", "  - /alert/who"]
    assert [what for what, _ in node.asked] == ["dtd-check"]
    # The report is still printed.
    (tmp_path / "bad.xml").write_text("<alert/>")
    result = run(node, "dtd", "check", str(own), str(tmp_path / "bad.xml"), "--against", "1.1")
    assert result.exit_code == 1 and "1,200 subscriptions" in result.stdout
