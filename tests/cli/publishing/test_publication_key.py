from __future__ import annotations

import pytest
from lxml import etree

from broker.cli.publishing.payload import UnusableDocument
from broker.cli.publishing.publication_key import MAX_ID, parse_key_rule
from broker.errors import BadQuery

CAP = "urn:cap"


def key(document: str, text: str = "string(@n)", *, changed: bool = False) -> bytes:
    rule = parse_key_rule(text, {"c": CAP}, with_content=changed)
    return rule.find_key(etree.fromstring(document))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("/c:a/c:id", True),
        ("c:id", True),
        ("//c:id", True),
        ("concat(c:id, '/', @n)", True),
        ("normalize-space(c:id)", True),
        ("c:other", False),
    ],
)
def test_the_value_of_the_expression_is_the_key(text: str, same: bool) -> None:
    first = f"<a xmlns='{CAP}' n='7'><id> 1 </id><other>x</other></a>"
    second = f"<p:a n='7' xmlns:p='{CAP}'><p:id> 1 </p:id><p:other>y</p:other></p:a>"
    assert (key(first, text) == key(second, text)) is same


def test_names_without_prefix_may_have_a_default_namespace() -> None:
    rule = parse_key_rule("concat(id, @n)", {"": CAP}, with_content=False)
    assert rule.find_key(etree.fromstring(f"<a xmlns='{CAP}' n='7'><id>1</id></a>"))
    with pytest.raises(UnusableDocument, match="no value"):
        rule.find_key(etree.fromstring("<a><id>1</id></a>"))


@pytest.mark.parametrize(
    ("document", "same"),
    [
        ("<a n='1'><b/></a>", True),
        ('<a  n="1" ><b></b><!--c--></a>', True),
        ("<a n='1' xmlns:p='urn:unused'><b/></a>", True),
        ("<a n='1'><b/> </a>", False),
        ("<a n='1'><b x=''/></a>", False),
        ("<a n='2'><b/></a>", False),
    ],
)
def test_changed_compares_the_canonical_content(document: str, same: bool) -> None:
    first = key("<a n='1'><b/></a>", changed=True)
    assert (key(document, changed=True) == first) is same
    assert first != key("<a n='1'><b/></a>")


def test_content_with_a_relative_namespace_is_compared_too() -> None:
    first = key("<a n='1' xmlns='../x'><b/></a>", changed=True)
    assert first == key("<a n='1'  xmlns='../x'><b></b></a>", changed=True)
    assert first != key("<a n='1' xmlns='../x'><b/><b/></a>", changed=True)


@pytest.mark.parametrize(
    ("document", "reason"),
    [("<a/>", "has no value"), ("<a n=' '/>", "has no value"), (f"<a n='{'x' * 5000}'/>", "4096")],
)
def test_an_event_without_a_usable_id_is_refused(document: str, reason: str) -> None:
    assert MAX_ID == 4096
    with pytest.raises(UnusableDocument, match=reason):
        key(document)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a[", "expected"),
        ("p:a", "the prefix p is not bound: give --namespace p=URI"),
        ("$ClientId", "sees only the payload"),
        ("/Mspaces:Event/a", "sees only the payload"),
        ("1) or (2", "expected"),
    ],
)
def test_an_expression_that_is_no_id_is_refused(text: str, reason: str) -> None:
    with pytest.raises(BadQuery, match=reason):
        parse_key_rule(text, {}, with_content=False)
