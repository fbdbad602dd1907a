from __future__ import annotations

import gc
import hashlib
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from lxml import etree
from zope.interface.verify import verifyObject

from broker.dtd.catalogue import Catalogue
from broker.dtd.dtd import MAX_ATTRIBUTES, Dtd
from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.errors import BadDtd, NotValid

Shipped = Callable[[str, str], Dtd]
Event = Callable[..., bytes]
Parse = Callable[[bytes], etree._Element]

FLIGHT_1_0 = DtdReference("flight", "1.0")
INCLUDE = (
    '<!ENTITY % m PUBLIC "-//xmlbroker//ELEMENTS Mspaces Envelope 1.0//EN" "mspaces-1.0.mod">%m;'
)


def load(text: str, catalogue: Catalogue) -> Dtd:
    return Dtd.load(DtdReference("x", "1"), text.encode(), catalogue.read)


def refused(text: str, catalogue: Catalogue) -> BadDtd:
    with pytest.raises(BadDtd) as caught:
        load(text, catalogue)
    return caught.value


def test_a_loaded_dtd_keeps_its_interface(shipped: Shipped) -> None:
    dtd = shipped("flight", "1.0")
    assert verifyObject(IDtd, dtd)
    assert dtd.reference == FLIGHT_1_0
    assert dtd.content_hash == hashlib.sha256(dtd.text).hexdigest()
    assert repr(dtd).startswith("<Dtd flight 1.0 ")


def test_the_names_are_those_declared_with_their_prefixes(shipped: Shipped) -> None:
    names = shipped("flight", "1.0").names
    assert {"flight", "flightleg", "status", "mode", "Mspaces:StreamId", "xmlns:Mspaces"} <= names
    assert "timestamp" not in names
    assert "timestamp" in shipped("flight", "1.1").names


def test_the_text_alone_makes_the_same_dtd(shipped: Shipped) -> None:
    dtd = shipped("flight", "1.0")
    again = Dtd.load(FLIGHT_1_0, dtd.text, lambda public, system: None)
    assert (again.content_hash, again.names) == (dtd.content_hash, dtd.names)


def test_comments_and_spacing_do_not_change_the_hash(catalogue: Catalogue) -> None:
    plain = load(f'<!ENTITY % Mspaces.content ", a">{INCLUDE}<!ELEMENT a (b | c)*>', catalogue)
    spaced = f'<!ENTITY % Mspaces.content ", a"> <!-- why -->{INCLUDE}\n<!ELEMENT a\n( b|c )*>'
    other = f'<!ENTITY % Mspaces.content ", a">{INCLUDE}<!ELEMENT a (b | c)+>'
    assert load(spaced, catalogue).content_hash == plain.content_hash
    assert load(other, catalogue).content_hash != plain.content_hash


def test_a_valid_event_has_no_error(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    assert shipped("flight", "1.0").check(parse(event(flight))) is None


def test_the_error_of_an_invalid_event_has_one_line_and_a_line_number(
    shipped: Shipped, event: Event, parse: Parse
) -> None:
    payload = b"\n<flight>\n<id>X</id><flightleg><height>290</height></flightleg></flight>"
    problem = shipped("flight", "1.0").check(parse(event(payload)))
    assert isinstance(problem, NotValid)
    assert problem.line == 4
    assert "height" in problem.text or "flightleg" in problem.text
    assert problem.text.endswith("(DTD flight 1.0)")
    assert "\n" not in problem.text


def test_a_document_without_the_envelope_is_not_valid(
    shipped: Shipped, parse: Parse, flight: bytes
) -> None:
    # libxml2 accepts any declared element as the root.
    problem = shipped("flight", "1.0").check(parse(flight))
    assert problem is not None
    assert "the root element is 'flight'" in problem.text


def test_an_event_that_is_valid_before_stays_so_after_an_invalid_one(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    dtd = shipped("flight", "1.0")
    good, bad = parse(event(flight)), parse(event(b"<flight/>"))
    assert [dtd.check(root) is None for root in (good, bad, good, bad)] == [
        True,
        False,
        True,
        False,
    ]


def test_another_prefix_is_refused_with_that_reason(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    renamed = event(flight).replace(b"Mspaces:", b"m:").replace(b":Mspaces=", b":m=")
    problem = shipped("flight", "1.0").check(parse(renamed.replace(b"PE m:", b"PE Mspaces:")))
    assert problem is not None
    assert "prefix 'm'" in problem.text


def test_another_namespace_is_refused(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    renamed = event(flight).replace(b"urn:xmlbroker:mspaces", b"urn:other")
    problem = shipped("flight", "1.0").check(parse(renamed))
    assert problem is not None
    assert "urn:other" in problem.text


def test_checking_does_not_change_the_event(
    shipped: Shipped, event: Event, parse: Parse, flight: bytes
) -> None:
    root = parse(event(flight))
    before = etree.tostring(root)
    shipped("flight", "1.0").check(root)
    assert etree.tostring(root) == before


def test_the_errors_of_refused_events_do_not_pile_up(
    shipped: Shipped, event: Event, parse: Parse
) -> None:
    dtd = shipped("flight", "1.0")
    root = parse(event(b"<flight>" + b"<wrong/>" * 5_000 + b"</flight>"))

    def refuse(times: int) -> int:
        for _ in range(times):
            assert dtd.check(root) is not None
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = refuse(2)
        last = refuse(20)
    finally:
        tracemalloc.stop()
    assert last - first < 100_000


def test_a_dtd_without_the_envelope_is_refused(catalogue: Catalogue) -> None:
    assert (
        "does not declare Mspaces:Event" in refused("<!ELEMENT flight (#PCDATA)>", catalogue).text
    )
    assert "does not declare Mspaces:Event" in refused("", catalogue).text


def test_an_ambiguous_content_model_is_refused_with_its_line(catalogue: Catalogue) -> None:
    error = refused(f"{INCLUDE}\n\n<!ELEMENT a ((b,c)|(b,d))>", catalogue)
    assert "content model of 'a'" in error.text
    assert error.line == 3


def test_an_error_of_a_driver_in_the_envelopes_model_names_the_module(catalogue: Catalogue) -> None:
    driver = f'<!ENTITY % Mspaces.content ", Mspaces:Summary">{INCLUDE}'
    error = refused(driver, catalogue)
    assert "'Mspaces:Summary' could match two places (in mspaces-1.0.mod)" in error.text


def test_a_syntax_error_names_the_declaration(catalogue: Catalogue) -> None:
    error = refused(f"{INCLUDE}<!ELEMENT a (b c)>", catalogue)
    assert "<!ELEMENT a (b c)>" in error.text


def test_a_default_outside_its_enumeration_is_refused(catalogue: Catalogue) -> None:
    error = refused(f'{INCLUDE}<!ELEMENT a EMPTY>\n<!ATTLIST a x (p|q) "r">', catalogue)
    assert "'r'" in error.text


def test_too_many_attributes_of_one_element_are_refused(catalogue: Catalogue) -> None:
    attributes = " ".join(f"a{n} CDATA #IMPLIED" for n in range(MAX_ATTRIBUTES + 1))
    error = refused(f"{INCLUDE}<!ELEMENT a EMPTY><!ATTLIST a {attributes}>", catalogue)
    assert "attributes" in error.text


def test_many_models_that_are_cheap_alone_are_refused_together(catalogue: Catalogue) -> None:
    model = "(" + ",".join(f"a{n}?" for n in range(190)) + ")*"
    start = time.perf_counter()
    error = refused(INCLUDE + "".join(f"<!ELEMENT e{n} {model}>" for n in range(30)), catalogue)
    assert "together" in error.text
    assert time.perf_counter() - start < 5


def test_loading_touches_neither_disk_nor_network(
    shipped: Shipped, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = shipped("flight", "1.0").text
    asked: list[object] = []

    def resolve(public_id: str | None, system_id: str) -> None:
        asked.append((public_id, system_id))

    monkeypatch.setattr("socket.socket", lambda *args, **kwargs: asked.append(args))
    assert Dtd.load(FLIGHT_1_0, text, resolve).text == text
    assert asked == []
    assert b"<!ENTITY" not in text and b"SYSTEM" not in text and b"PUBLIC" not in text


@pytest.mark.parametrize("name", ["nitf-2-5.dtd", "nitf-3-0.dtd", "NewsMLv1.2.dtd"])
def test_large_dtds_of_others_become_payloads(
    name: str, catalogue: Catalogue, shared_data: Path
) -> None:
    text = (shared_data / "nitf-benchmark" / name).read_text()
    root = "NewsML" if name.startswith("NewsML") else "nitf"
    dtd = load(f'<!ENTITY % Mspaces.content ", {root}">{INCLUDE}{text}', catalogue)
    assert root in dtd.names
    assert len(dtd.names) > 150
