"""Causes of unsatisfiable queries: the failing part and a suggestion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker.matching.query.query import parse_query
from broker.matching.schema.abstract_evaluation import analyse_query, check_satisfiability
from broker.matching.schema.schema import Schema

OPEN = """
<!ELEMENT flight (id, leg*, (up | down), note?, v:far?)>
<!ATTLIST flight kind (scheduled | charter) "scheduled" number NMTOKEN #REQUIRED
                 xmlns:v CDATA #FIXED "urn:v">
<!ELEMENT id (#PCDATA)>
<!ELEMENT leg (altitude?, speed)>
<!ATTLIST leg status CDATA #IMPLIED unit CDATA #FIXED "kt">
<!ELEMENT altitude (#PCDATA)>
<!ELEMENT speed (#PCDATA)>
<!ELEMENT up EMPTY>
<!ELEMENT down EMPTY>
<!ELEMENT note (#PCDATA | note | id)*>
<!ELEMENT v:far (id)>
"""


@pytest.fixture(scope="module")
def schema(make_schema: Callable[..., Schema]) -> Schema:
    return make_schema(OPEN)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("/flihgt", "has no root element 'flihgt' (column 2); there is 'flight'"),
        ("/flight/leg/@statsu = 'a'", "attribute 'statsu' on leg (column 13); there is 'status'"),
        ("/flight/@status", "'status' on flight (column 9); there is /flight/leg/@status"),
        ("altitude > 3", "'altitude' in flight (column 1); there is /flight/leg/altitude"),
        ("//hight", "has no element 'hight' (column 3); there is 'flight'"),
        ("leg//note", "has no element 'note' below leg (column 6); there is /flight/note"),
        ("leg/zzz", "has no element 'zzz' in leg (column 5)"),
        ("id/*", "has nothing that is child::* from id (column 4)"),
        ("up/text()", "has nothing that is child::text() from up (column 4)"),
        ("//id/parent::leg", "'leg' on the axis parent from id (column 6); there is /flight/leg"),
        ("v/far", "has no element 'v' in flight (column 1)"),
        ("far", "in flight (column 1); there is 'v:far' in the namespace urn:v"),
        ("@kind = 'charterd'", "attribute 'kind' of flight is 'charter' or 'scheduled' (column 7)"),
        ("'kt' != leg/@unit", "says that attribute 'unit' of leg is 'kt' (column 6)"),
        ("@kind > 3", "attribute 'kind' of flight is 'charter' or 'scheduled' (column 7)"),
        ("$Securitylevel = 'secret'", "$Securitylevel is 'high', 'low' or 'med' (column 16)"),
        ("$VersionNum = '2.0'", "says that $VersionNum is '1.0' (column 13)"),
        ("$SequenceNumber = 0", "makes this comparison always false (column 17)"),
        ("count(nosuch) > 0", "has no element 'nosuch' in flight (column 7)"),
        ("contains(nosuch, 'x')", "has no element 'nosuch' in flight (column 10)"),
        ("starts-with(@kind, 'x')", ""),
        ("count(//id) = 0", "makes this comparison always false (column 13)"),
        ("not(id)", "makes the negated part true of every event (column 1)"),
        ("not(@kind)", "makes the negated part true of every event (column 1)"),
        ("leg[not(speed)]", "makes the negated part true of every event (column 5)"),
        ("leg[0]", "has nothing at such a position (column 5)"),
        ("leg[1.5]", "has nothing at such a position (column 5)"),
        ("leg[position() < 1]", "makes this comparison always false (column 16)"),
        ("id and @nosuch", "has no attribute 'nosuch' on flight (column 8)"),
        ("@x or leg/@y", "has no attribute 'y' on leg (column 11)"),
        ("@x | leg/@y", "has no attribute 'y' on leg (column 10)"),
        ("(id | note)[@x]", "has no attribute 'x' on id or note (column 13)"),
        ("false()", "makes this always false (column 1)"),
        ("1 + 1 = 3", "makes this comparison always false (column 7)"),
        ("/Mspaces:Event/@id", "has no attribute 'id' on Mspaces:Event (column 16)"),
        ("/Mspaces:Event/flight/leg/spede", "there is 'speed'"),
        ("//Mspaces:StreamId", "has no element 'Mspaces:StreamId' (column 3)"),
        ("/Mspaces:Event//@Liveness = 'lively'", "attribute 'Liveness' of Mspaces:EventType is"),
        ("//*[local-name() = 'flihgt']", "makes this comparison always false (column 18)"),
        ("//*[namespace-uri() = 'urn:w']", "makes this comparison always false (column 21)"),
        ("//*[name() = 'far']", "makes this comparison always false (column 12)"),
        ("id/following-sibling::leg/x", "has no element 'x' in leg"),
        ("speed/ancestor::nosuch", "has no element 'speed' in flight"),
        ("string-length(up) > 0", "makes this comparison always false (column 19)"),
    ],
)  # fmt: skip
def test_an_unsatisfiable_query_has_a_cause(schema: Schema, query: str, reason: str) -> None:
    impossible = check_satisfiability(parse_query(query), schema)
    assert impossible is not None
    assert str(impossible).startswith("the DTD flight 1.0 ")
    assert reason in str(impossible)


@pytest.mark.parametrize(
    "query",
    [
        "true()", "/", "/flight", "//altitude/../speed > 3", "leg[altitude > 3]/@status = ''",
        "@kind = 'charter'", "@kind != 'charter'", "@number > 3", "not(leg)", "not(nosuch)",
        "not(up)", "not(down)", "up or down", "count(nosuch) = 0", "leg[2]", "leg[last()]",
        "leg[position() = 2]", "//note/note/note/note//id", "//note/ancestor::note/parent::flight",
        "//text() = ' '", "leg/text()", "//comment()", "//processing-instruction('t')",
        "up/../@number", "id/following::note", "note/preceding::id", "//*[@*]", "//@*[. = 'kt']",
        "name(*) = 'id'", "//*[name() = 'v:far']", "id('x')", "lang('en')", "namespace::*",
        "string(nosuch) = ''", "string(leg/@unit) = ''", "sum(nosuch) = 0", "nosuch = false()",
        "leg/@unit = 'kt'", "not(leg/@unit = 'kt')", "-(-1) = 1", "1 div 0 > 5", "3 - 1",
        "number(@number) != number(@number)", "normalize-space(id)", "concat('', 'a')",
        "$EventType = 'flight'", "$StreamId = 'x' and $ClientId != 'y'", "$TimeStamp > 1e12",
        "$Liveness = 'recovery'", "/Mspaces:Event/flight/@kind = 'charter'",
        "/Mspaces:Event/Mspaces:Summary", "/Mspaces:Event//id/../leg", "/Mspaces:Event[//id]",
        "boolean(id) = true()", "id < true()", "(//id)[1]", "leg[altitude][1]/speed",
        "not(//*[1][self::leg])", "not((up | down)[1][self::up])",
    ],
)  # fmt: skip
def test_a_query_that_may_match_has_no_cause(schema: Schema, query: str) -> None:
    assert check_satisfiability(parse_query(query), schema) is None


def test_prefixes_are_those_of_the_subscription(schema: Schema) -> None:
    assert check_satisfiability(parse_query("w:far/id", {"w": "urn:v"}), schema) is None
    assert check_satisfiability(parse_query("w:*", {"w": "urn:v"}), schema) is None
    wrong = check_satisfiability(parse_query("v:far", {"v": "urn:other"}), schema)
    assert wrong is not None
    assert "there is 'v:far' in the namespace urn:v" in wrong.reason


def test_a_prefix_that_a_document_may_bind_is_unknown(
    make_schema: Callable[..., Schema],
) -> None:
    schema = make_schema(
        '<!ELEMENT flight (v:a, b)><!ATTLIST flight xmlns:v CDATA "urn:v" '
        'xmlns CDATA #FIXED "urn:f">'
        "<!ELEMENT v:a EMPTY><!ELEMENT b EMPTY>"
    )
    for uri in ("urn:v", "urn:w"):
        assert check_satisfiability(parse_query("//v:a", {"v": uri}), schema) is None
    # The default namespace is fixed, but a document may omit it.
    for query in ("/flight/b", "/f:flight/f:b"):
        assert check_satisfiability(parse_query(query, {"f": "urn:f"}), schema) is None
    assert check_satisfiability(parse_query("//f:b", {"f": "urn:g"}), schema) is not None


def test_an_event_without_payload_is_the_envelope(make_schema: Callable[..., Schema]) -> None:
    payload = "<!ELEMENT flight EMPTY>"
    maybe = make_schema(payload, content=", flight?")
    always = make_schema(payload)
    either = make_schema(payload + "<!ELEMENT ship EMPTY>", content=", (flight | ship)")
    query = parse_query("//Mspaces:StreamId")
    assert check_satisfiability(query, maybe) is None
    assert (
        check_satisfiability(query, always) is not None
        and check_satisfiability(query, either) is not None
    )
    for name in ("flight", "ship"):
        assert check_satisfiability(parse_query(f"/{name}"), either) is None
    # An event has at most one payload.
    assert check_satisfiability(parse_query("/flight and /Mspaces:Event/ship"), either) is not None


def test_a_low_work_limit_makes_every_query_satisfiable(schema: Schema) -> None:
    query = parse_query("//leg[//nosuch or //*/nosuch]")
    assert check_satisfiability(query, schema) is not None
    found = analyse_query(query, schema, work=20)
    assert (found.unsatisfiable, found.is_complete) == (None, False)


def test_elements_with_any_content_share_their_nodes(
    make_schema: Callable[..., Schema],
) -> None:
    schema = make_schema(
        "<!ELEMENT flight ANY><!ELEMENT a ANY><!ATTLIST a b CDATA #IMPLIED><!ELEMENT c EMPTY>"
    )
    assert schema.shared
    for query in (
        "//a/a/c",
        "//c/parent::flight",
        "a/c/../@b",
        "c/preceding-sibling::a",
        "//a = 3",
    ):
        assert check_satisfiability(parse_query(query), schema) is None, query
    for query in ("//c/c", "//c/@b", "//a/nosuch", "flight/a/parent::c"):
        assert check_satisfiability(parse_query(query), schema) is not None, query


def test_a_dense_dtd_shares_nodes_and_a_larger_one_is_not_analysed(
    make_schema: Callable[..., Schema],
) -> None:
    def dense(count: int) -> str:
        names = ["flight", *(f"e{number}" for number in range(count))]
        model = f"(#PCDATA | {' | '.join(names)})*"
        return "".join(f"<!ELEMENT {name} {model}>" for name in names)

    shared = make_schema(dense(20))
    assert shared.shared and check_satisfiability(parse_query("//e3/nosuch"), shared) is not None
    assert check_satisfiability(parse_query("//e3/e4/e3/parent::e4"), shared) is None
    beyond = make_schema(dense(160))
    assert beyond.scopes == () and check_satisfiability(parse_query("/nosuch"), beyond) is None
    payloads = ", (" + " | ".join(f"e{number}" for number in range(17)) + ")"
    many = make_schema(dense(17), content=payloads)
    assert many.scopes == ()
