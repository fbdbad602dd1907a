"""Queries: identity, prefixes, and the documents that they read."""

from __future__ import annotations

import pickle

import pytest

from broker.errors import BadQuery, QueryTooExpensive
from broker.event.envelope import NAMESPACE
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import MAX_NAMESPACES, parse_query


def test_queries_are_equal_by_text_and_used_prefixes() -> None:
    first = parse_query("//p:a", {"p": "urn:1", "unused": "urn:2"})
    assert first == parse_query("//p:a", {"p": "urn:1"})
    assert hash(first) == hash(parse_query("//p:a", {"p": "urn:1"}))
    assert first != parse_query("//p:a", {"p": "urn:2"})
    assert first != parse_query("// p:a", {"p": "urn:1"})
    assert first.namespaces == (("p", "urn:1"),)


def test_a_query_can_be_recreated_from_text_and_namespaces() -> None:
    query = parse_query("//p:a[Mspaces:b]", {"p": "urn:1", "q": "urn:2"})
    assert parse_query(query.text, dict(query.namespaces)) == query
    assert pickle.loads(pickle.dumps(query)) == query


@pytest.mark.parametrize(
    ("text", "payload", "envelope", "variables"),
    [
        ("true()", False, False, set()),
        ("$StreamId = 'x' or $Liveness", False, False, {"StreamId", "Liveness"}),
        ("/a", True, False, set()),
        ("a", True, False, set()),
        ("string()", True, False, set()),
        ("lang('en')", True, False, set()),
        ("string-length() > 1", True, False, set()),
        ("/Mspaces:Event/a", False, True, set()),
        ("/Mspaces:Event[a]", False, True, set()),
        ("/Mspaces:Event[string()]", False, True, set()),
        ("/Mspaces:Event[/a]", True, True, set()),
        ("/Mspaces:Event and a", True, True, set()),
        ("/Mspaces:Event[$ClientId]", False, True, {"ClientId"}),
    ],
)
def test_a_query_lists_the_documents_and_variables_that_it_reads(
    text: str, payload: bool, envelope: bool, variables: set[str]
) -> None:
    query = parse_query(text)
    assert (query.uses_payload, query.uses_envelope) == (payload, envelope)
    assert query.variables == variables


def test_an_unbound_prefix_is_rejected_with_its_position() -> None:
    with pytest.raises(BadQuery, match="'q' is not bound") as caught:
        parse_query("'q:' = p:a/q:b", {"p": "urn:p"})
    assert caught.value.column == 12


@pytest.mark.parametrize(
    ("prefix", "uri"),
    [
        ("Mspaces", "urn:other"),
        ("xml", "urn:other"),
        ("xmlns", "urn:other"),
        ("a:b", "urn:other"),
        ("1", "urn:other"),
        ("a", ""),
        ("a", "urn:\x00"),
    ],
)
def test_some_prefixes_can_not_be_bound(prefix: str, uri: str) -> None:
    with pytest.raises(BadQuery):
        parse_query("a", {prefix: uri})


def test_the_envelopes_prefix_may_be_bound_to_its_own_namespace() -> None:
    assert parse_query("//Mspaces:a", {"Mspaces": NAMESPACE}) == parse_query("//Mspaces:a")
    assert parse_query("//@xml:id").namespaces == ()


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\ufffe", "\ud800"])
def test_characters_outside_xml_are_rejected_with_their_position(character: str) -> None:
    with pytest.raises(BadQuery, match="not allowed in XML") as caught:
        parse_query(f"a = '{character}'")
    assert caught.value.column == 6


def test_names_follow_libxml2() -> None:
    assert parse_query("/bücher/τίτλος").uses_payload
    with pytest.raises(BadQuery, match="can not stand in a name") as caught:
        parse_query("a = b×c")
    assert caught.value.column == 6


def test_a_long_text_is_rejected() -> None:
    with pytest.raises(QueryTooExpensive, match="4097 characters"):
        parse_query("a" * 4097)
    assert parse_query("a" * 4096)
    with pytest.raises(QueryTooExpensive, match="at most 3"):
        parse_query("true()", limits=QueryLimits(max_length=3))


def test_long_namespaces_are_rejected() -> None:
    assert parse_query("true()", {"p": "u" * (MAX_NAMESPACES - 1)})
    with pytest.raises(BadQuery, match="namespaces have more"):
        parse_query("true()", {"p": "u" * MAX_NAMESPACES})
    with pytest.raises(BadQuery, match="namespaces have more"):
        parse_query("true()", {f"p{n}": "u" for n in range(MAX_NAMESPACES)})
