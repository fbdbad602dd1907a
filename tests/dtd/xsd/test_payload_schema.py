"""Payloads are validated by the type's schema too, in a process with limits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from lxml import etree

from broker.dtd.dtd import Dtd
from broker.dtd.reference import DtdReference
from broker.dtd.xsd.bundle import SchemaBundle
from broker.dtd.xsd.payload_schema import PayloadSchema
from broker.dtd.xsd.validator import FIRST_PAUSE, SchemaValidator
from broker.errors import BadDtd, SchemaUnusable
from tests.dtd.conftest import write_event
from tests.dtd.xsd.schema_types import (
    SLOW_TO_COMPILE,
    SLOW_XSD,
    flight_text,
    load,
    slow_payload,
    xsd,
)

REFERENCE = DtdReference("flight", "1.0")
GOOD = b"<flight><altitude>290</altitude></flight>"


@pytest.fixture(scope="module")
def flight() -> Dtd:
    return load(flight_text())


@pytest.fixture
def validator() -> Iterator[SchemaValidator]:
    validator = SchemaValidator(lambda: now[0])
    yield validator
    validator.close()


@pytest.fixture(autouse=True)
def start_of_time() -> None:
    now[0] = 0.0


now = [0.0]


def envelope(payload: bytes) -> Any:
    return etree.fromstring(write_event(payload))


def schema(
    validator: SchemaValidator, body: str, *more: tuple[str, bytes], attributes: str = ""
) -> PayloadSchema:
    files = (("main.xsd", xsd(body, attributes)), *more)
    return PayloadSchema(REFERENCE, SchemaBundle(files).pack(), validator)


def pattern(regular_expression: str) -> str:
    return (
        '<xs:element name="flight"><xs:simpleType><xs:restriction base="xs:string">'
        f'<xs:pattern value="{regular_expression}"/></xs:restriction></xs:simpleType></xs:element>'
    )


@pytest.mark.parametrize(
    ("payload", "line", "problem"),
    [
        (GOOD, 0, ""),
        (b"", 0, ""),
        (b'<flight state="down"><altitude> 600 </altitude><note>n</note></flight>', 0, ""),
        (b"<flight>\n<altitude\n>601</altitude></flight>", 4, "maximum value allowed ('600')"),
        (b"<flight>\n<altitude>x</altitude></flight>", 3, "[flight.xsd:3]"),
        (b"<flight>\n<note/></flight>", 3, "Expected is ( altitude )"),
        (b'<flight\n state="off"><altitude>1</altitude></flight>', 3, "{'up', 'down'}"),
        (b"<altitude>1</altitude>", 2, "not follow the DTD"),
        # The DTD supplies this attribute, and the schema does not know it.
        (b'<flight more="supplied"><altitude>1</altitude></flight>', 2, "'more' is not allowed"),
    ],
)
def test_an_event_is_validated_by_the_dtd_then_by_the_schema(
    flight: Dtd, payload: bytes, line: int, problem: str
) -> None:
    root = envelope(payload)
    invalid = flight.check(root)
    assert (invalid is None) is (problem == "")
    if invalid is not None:
        assert problem in invalid.text and invalid.code == "not-valid"
        assert "flight 1.0)" in invalid.text
        # libxml2 has the line of a start tag's end.
        assert invalid.line == line


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('\n<xs:element name="flight" type="nothing"/>', "main.xsd:2: element decl. 'flight'"),
        ("<xs:element/>", "main.xsd:1: "),
        ('<xs:include schemaLocation="/etc/passwd"/>', "main.xsd:1: "),
        ('<xs:include schemaLocation="http://127.0.0.1:9/x.xsd"/>', "main.xsd:1: "),
        ('<xs:import namespace="urn:x" schemaLocation="x.xsd"/><xs:element ref="a"/>', "main.xsd:"),
        (pattern("("), "main.xsd:1: "),
        ("<xs:assert test='x'/>", "main.xsd:1: "),
        (
            SLOW_TO_COMPILE,
            "takes too long",
        ),
    ],
)
def test_a_schema_that_can_not_be_used_is_refused_with_its_place(
    validator: SchemaValidator, body: str, problem: str
) -> None:
    with pytest.raises(BadDtd) as refused:
        schema(validator, body)
    assert f"the schema can not be used: {problem}" in refused.value.text or (
        problem in refused.value.text and "too long" in problem
    )
    assert schema(validator, pattern("b")).check(envelope(b"<flight>b</flight>")) is None


def test_a_second_file_has_no_doctype_and_is_named(validator: SchemaValidator) -> None:
    include = '<xs:include schemaLocation="a.xsd"/>'
    entities = b'<!DOCTYPE a [<!ENTITY e "x">]>' + xsd("<xs:element name='flight'/>")
    with pytest.raises(BadDtd, match=r"a\.xsd:1: a schema file may have no DOCTYPE"):
        schema(validator, include, ("a.xsd", entities))
    good = schema(validator, include, ("a.xsd", xsd("<xs:element name='flight'/>")))
    assert good.check(envelope(b"<flight><any/></flight>")) is None


def test_a_document_that_takes_too_long_pauses_its_schema_alone(
    validator: SchemaValidator,
) -> None:
    slow = schema(validator, SLOW_XSD)
    other = schema(validator, pattern("a*"))
    hostile, simple = envelope(slow_payload(20)), envelope(b"<flight><v>x</v></flight>")
    assert slow.check(simple) is None
    assert validator.started == 1
    refused = slow.check(hostile)
    assert isinstance(refused, SchemaUnusable) and "takes too long" in refused.text
    assert other.check(envelope(b"<flight>aaa</flight>")) is None
    assert validator.started == 2
    assert "is not used for 10 s" in str(slow.check(simple))
    now[0] = FIRST_PAUSE
    assert slow.check(simple) is None
    assert slow.check(hostile) is not None
    now[0] += FIRST_PAUSE
    assert "is not used for 10 s" in str(slow.check(simple))
    now[0] += FIRST_PAUSE
    assert slow.check(simple) is None
    # Neither hostile document was given to a process twice.
    assert validator.started == 3


def test_slow_documents_have_a_tenth_of_the_time(validator: SchemaValidator) -> None:
    slow = schema(validator, SLOW_XSD)
    accepted = 0
    while slow.check(envelope(slow_payload(1))) is None:
        accepted += 1
        # The debt of a document is paid.
        now[0] += 5.0 if accepted <= 6 else 0.0
    assert 8 <= accepted < 20
    assert "is not used for 10 s" in str(slow.check(envelope(slow_payload(1))))
    assert validator.started == 1


def test_a_process_that_someone_has_ended_is_replaced(validator: SchemaValidator) -> None:
    flight = schema(validator, pattern("a*"))
    good, bad = envelope(b"<flight>aa</flight>"), envelope(b"<flight>b</flight>")
    assert flight.check(good) is None
    process: Any = validator._process
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert flight.check(good) is None and flight.check(bad) is not None
    assert validator.started == 2


def test_a_process_that_does_not_answer_is_ended(validator: SchemaValidator) -> None:
    flight, good = schema(validator, pattern("a*")), envelope(b"<flight>aa</flight>")
    process: Any = validator._process
    connection: Any = validator._connection
    connection.settimeout(0.2)
    os.kill(process.pid, signal.SIGSTOP)
    assert "has not answered" in str(flight.check(good))
    assert process.poll() is not None
    now[0] = FIRST_PAUSE
    assert flight.check(good) is None


def test_a_process_that_ends_at_its_age_loses_nothing(
    validator: SchemaValidator, monkeypatch: pytest.MonkeyPatch
) -> None:
    flight = schema(validator, pattern("a*"))
    connection: Any = validator._connection
    # The process ends in order when its connection is closed.
    connection.shutdown(1)
    assert connection.recv(1) == b""
    assert flight.check(envelope(b"<flight>aa</flight>")) is None
    assert flight.check(envelope(b"<flight>b</flight>")) is not None
    assert validator.started == 2


def test_no_more_schemas_are_kept_than_the_worker_has_room_for(
    validator: SchemaValidator,
) -> None:
    schemas = [schema(validator, pattern(f"a{n}")) for n in range(70)]
    for number, each in enumerate(schemas):
        assert each.check(envelope(b"<flight>a%d</flight>" % number)) is None
        assert each.check(envelope(b"<flight>a</flight>")) is not None
    assert validator.started == 1
