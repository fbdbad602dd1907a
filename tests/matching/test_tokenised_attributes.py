"""Attributes that are not CDATA are normalised before validation and matching (XML 1.0, 3.3.3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from broker.dtd.dtd import Dtd
from broker.event.envelope import Liveness
from broker.event.stream import StreamPattern
from broker.matching.contract import Accepted, Refused
from broker.matching.query.query import parse_query
from broker.matching.switch import Switch
from tests.matching.conftest import ENGINES, KnownDtds, event, load_dtd
from tests.matching.unlimited import ANY_COST

DECLARED = """
<!ELEMENT tower (mast*)>
<!ATTLIST tower name NMTOKEN #IMPLIED label CDATA #IMPLIED xml:space (default|preserve) #IMPLIED
                xmlns:x CDATA #FIXED "urn:x" x:kind (steel|wood) #IMPLIED>
<!ELEMENT mast (#PCDATA)>
<!ATTLIST mast state (up|down|off) "up" parts NMTOKENS #IMPLIED code ID #IMPLIED
               near IDREF #IMPLIED note CDATA #IMPLIED version NMTOKEN #FIXED "v1">
"""
HEAD = b"""<!ENTITY % Mspaces.content ", tower">
<!ENTITY % Mspaces.envelope
         PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.1//EN" "mspaces-1.1.mod">
%Mspaces.envelope;"""
NAMES = ("name", "label", "x:kind", "state", "parts", "near", "note", "version", "xml:space")


@pytest.fixture(scope="module")
def dtd() -> Dtd:
    return load_dtd("tower", "1.0", HEAD + DECLARED.encode())


def tower_event(payload: str) -> bytes:
    return event(payload.encode(), type_name="tower")


def validate_by_parser(payload: str) -> etree._Element | None:
    """Return the tree of a parser that reads the DTD; None if the payload is not valid."""
    parser = etree.XMLParser(load_dtd=True, dtd_validation=True, attribute_defaults=True)
    try:
        return etree.fromstring(f"<!DOCTYPE tower [{DECLARED}]>{payload}".encode(), parser)
    except etree.XMLSyntaxError:
        return None


BLANK = st.sampled_from(["", "", "", " ", "  ", "\n", "\t ", "&#32;", "&#x20; ", "&#9;", "&#10;"])
WORDS = st.sampled_from(["up", "down", "steel", "v1", "a", "b", "default", ""])


@st.composite
def attributes(draw: st.DrawFn, *names: str) -> str:
    found = []
    for name in names:
        if draw(st.booleans()):
            words = draw(st.lists(WORDS, max_size=2))
            value = "".join(draw(BLANK) + word for word in words) + draw(BLANK)
            found.append(f' {name}="{value}"')
    return "".join(found)


@st.composite
def towers(draw: st.DrawFn) -> str:
    masts = draw(st.lists(attributes("state", "parts", "near", "note", "version"), max_size=3))
    codes = draw(st.sampled_from(["a", " a ", "a\n", "\t a"]))
    inner = "".join(f"<mast{each}>1</mast>" for each in masts)
    own = draw(attributes("name", "label", "x:kind", "xml:space"))
    return f'<tower xmlns:x="urn:x"{own}><mast code="{codes}">2</mast>{inner}</tower>'


QUERIES = [
    *(f"//@{name} = '{word}'" for name in NAMES for word in ("up", "down", "v1", "a", "a b", "")),
    "//mast[@state = 'up']/@parts = 'a b'",
    "string-length(//@name) > 2",
    "//mast[@code = 'a']",
    "//mast/@near = //mast/@code",
    "starts-with(//@note, ' ')",
]


@settings(max_examples=150)
@given(payload=towers())
def test_engines_answer_as_a_parser_that_reads_the_dtd(dtd: Dtd, payload: str) -> None:
    tree = validate_by_parser(payload)
    document = tower_event(payload)
    for make in ENGINES.values():
        engine = make(KnownDtds(dtd), clock=lambda: 0.0)
        numbers = {
            engine.subscribe(StreamPattern.parse(">"), parse_query(q, {"x": "urn:x"}, ANY_COST)): q
            for q in QUERIES
        }
        for _ in range(4):
            # The engine may recognise the shape of the later ones.
            (verdict,) = engine.match([document])
            if tree is None:
                assert isinstance(verdict, Refused), (payload, verdict)
                continue
            assert isinstance(verdict, Accepted), (payload, verdict)
            expected = [
                number
                for number, q in numbers.items()
                if etree.XPath(f"boolean({q})", namespaces={"x": "urn:x"}, regexp=False)(tree)
            ]
            assert list(verdict.subscriptions) == expected, payload
        if tree is not None:
            for number in numbers:
                assert engine.select(number, [document], Liveness.LIVE) == [number in expected]


def test_a_shape_has_the_normalised_value_and_the_bytes_of_the_event(dtd: Dtd) -> None:
    engine = Switch(KnownDtds(dtd), clock=lambda: 0.0)
    pattern = StreamPattern.parse(">")
    down = engine.subscribe(pattern, parse_query("//mast[@state = 'down' and . > 5]"))
    exact = engine.subscribe(pattern, parse_query("//@note = ' n '"))
    lxml = engine.subscribe(pattern, parse_query("(//mast[. > 5])[1]/@parts = 'a b'"))
    found = []
    for number in range(12):
        payload = f'<tower><mast state=" down" parts="a  b " note=" n ">{number}</mast></tower>'
        (verdict,) = engine.match([tower_event(payload)])
        assert isinstance(verdict, Accepted)
        found.append(set(verdict.subscriptions))
    assert found == [{exact}] * 6 + [{down, exact, lxml}] * 6
    assert engine.statistics()["recognised"] > 6
    # Other spaces are other bytes: another shape, with the same answer.
    other = '<tower><mast state="down " parts=" a b" note=" n ">7</mast></tower>'
    for _ in range(4):
        (verdict,) = engine.match([tower_event(other)])
        assert isinstance(verdict, Accepted)
        assert set(verdict.subscriptions) == {down, exact, lxml}


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_attributes_of_the_envelope_are_as_the_dtd_lists_them(name: str, dtd: Dtd) -> None:
    engine = ENGINES[name](KnownDtds(dtd), clock=lambda: 0.0)
    document = tower_event("<tower/>")
    spaced = document.replace(b'Securitylevel="med"', b'Securitylevel=" med"')
    if spaced == document:
        spaced = document.replace(
            b"<Mspaces:EventType>", b'<Mspaces:EventType Securitylevel=" med">'
        )
    assert spaced != document
    assert not isinstance(engine.match([spaced])[0], Accepted)


@pytest.mark.parametrize("name", sorted(ENGINES))
def test_an_attribute_with_another_prefix_is_normalised_too(name: str, dtd: Dtd) -> None:
    engine = ENGINES[name](KnownDtds(dtd), clock=lambda: 0.0)
    query = parse_query("/tower/@p:kind = 'steel'", {"p": "urn:x"})
    number = engine.subscribe(StreamPattern.parse(">"), query)
    for _ in range(3):
        (verdict,) = engine.match([tower_event('<tower xmlns:y="urn:x" y:kind=" steel "/>')])
        assert isinstance(verdict, Accepted)
        assert verdict.subscriptions == (number,)
    (verdict,) = engine.match([tower_event('<tower xmlns:x="urn:other" x:kind=" steel "/>')])
    assert not isinstance(verdict, Accepted)
