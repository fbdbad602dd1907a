"""Marked runs of blanks: the tree is the same, but libxml2 caches no text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from broker.matching.whitespace import mark_mixed_runs


@pytest.mark.parametrize(
    "document",
    [
        b"<a><b/></a>",
        b"<a>\n  <b/>\n</a>",
        b"<a>\n\n\t\t<b/>\r\n  <b/></a>",
        b"<a>text \n text</a>",
        b"<a> <b/></a>",
    ],
)
def test_ordinary_documents_are_unchanged(document: bytes) -> None:
    assert mark_mixed_runs(document, 0) == document


def test_mixed_runs_are_marked() -> None:
    assert mark_mixed_runs(b"<a> \n <b/></a>", 0) == b"<a> \n <![CDATA[]]><b/></a>"
    assert mark_mixed_runs(b"<a>\n \t<b/></a>", 0) == b"<a>\n \t<![CDATA[]]><b/></a>"


def test_nothing_is_marked_outside_element_content() -> None:
    document = (
        b"<a>\t \n<!-- >\t \n<b/> --><![CDATA[>\t \n<]]><?p >\t \n<x?></a>\t \n<?p?>\t \n<!---->"
    )
    assert mark_mixed_runs(document, 0) == document


_CONTENT = st.lists(
    st.sampled_from(
        [b"<b/>", b"<b>", b"</b>", b" ", b"\n", b"\t", b"\r", b"x", b"<!-- >\t\n <-->", b"&lt;"]
        + [b"<![CDATA[ \n ]]>", b"<?p >\t\n <?>", b"<b k=' > \t '/>", b"]]&gt;", b">"]
    ),
    max_size=14,
).map(b"".join)


@given(_CONTENT, _CONTENT)
def test_marking_never_changes_the_tree(content: bytes, behind: bytes) -> None:
    for document in (b"<a>" + content + b"</a>", b"<a>" + content + b"</a>" + behind):
        try:
            expected = etree.tostring(etree.fromstring(document).getroottree())
        except etree.XMLSyntaxError:
            with pytest.raises(etree.XMLSyntaxError):
                etree.fromstring(mark_mixed_runs(document, 0))
        else:
            marked = etree.fromstring(mark_mixed_runs(document, 0))
            assert etree.tostring(marked.getroottree()) == expected
            texts = etree.XPath("count(//text())")
            assert texts(marked) == texts(etree.fromstring(document))
