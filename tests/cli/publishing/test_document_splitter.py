from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.publishing.document_splitter import DocumentSplitter
from broker.cli.publishing.publication import RawDocument

#: Their ends are hard to find.
TRICKY = (
    b"<a/>",
    b'<?xml version="1.0"?><a/>',
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE a SYSTEM "a>.dtd">\n<a><b/></a>',
    b'<a x="/a>" y=\'>"\'><b/></a >',
    b"<a><!-- </a> --><![CDATA[</a> ]] ]>]]><?pi </a> ?></a>",
    b"<a><a><a/></a></a>",
    b"<!-- <before> --><?style before?><a>text</a>",
    b"<a><ab/><b>&lt;/a></b></a>",
    "<aé>é€</aé>".encode(),
    b"<p:a xmlns:p='u'\n  q='1'\n/>",
)


def split(data: bytes, step: int, max_document: int = 1 << 20) -> list[RawDocument]:
    splitter = DocumentSplitter("f", max_document)
    documents = [
        document
        for at in range(0, len(data), step)
        for document in splitter.feed(data[at : at + step])
    ]
    return documents + splitter.close()


def found(data: bytes, step: int = 1 << 16) -> list[bytes]:
    documents = split(data, step)
    assert not [document.problem for document in documents if document.problem]
    return [document.data for document in documents]


@pytest.mark.parametrize("step", [1, 2, 7, 64, 4096])
def test_a_hundred_documents_without_separators_are_split(step: int) -> None:
    documents = [TRICKY[number % len(TRICKY)] for number in range(100)]
    assert found(b"".join(documents), step) == documents


@given(
    st.lists(st.tuples(st.sampled_from(TRICKY), st.sampled_from([b"", b"\n", b" \r\n\t"]))),
    st.integers(1, 200),
)
def test_the_portions_of_the_input_do_not_matter(
    documents: list[tuple[bytes, bytes]], step: int
) -> None:
    data = b"".join(document + space for document, space in documents)
    assert found(data, step) == [document for document, _ in documents]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_input_is_read_to_its_end(data: bytes, step: int) -> None:
    for document in split(data, step):
        assert document.problem or document.data in data


@given(st.lists(st.sampled_from(b"<a> </a> <! <?x ?> <!-- --> ' ] text <![CDATA[".split())))
def test_broken_markup_is_split_the_same_in_any_portions(tokens: list[bytes]) -> None:
    data = b"".join(tokens)
    assert [p.data for p in split(data, 1)] == [p.data for p in split(data, 1 << 16)]


def test_a_byte_order_mark_between_documents_is_no_text() -> None:
    mark = b"\xef\xbb\xbf"
    assert found(mark + b"<a/>\n" + mark + b"<b/>", 1) == [b"<a/>", b"<b/>"]


def test_each_document_has_its_line() -> None:
    documents = split(b"\n\n<a>\n</a><b/>\n<c/>", 3)
    assert [str(document.location) for document in documents] == ["f:3", "f:4", "f:5"]


def test_the_last_document_of_a_slow_pipe_does_not_wait_for_the_next() -> None:
    splitter = DocumentSplitter("f")
    assert [document.data for document in splitter.feed(b"<a><b/></a>")] == [b"<a><b/></a>"]
    assert [document.data for document in splitter.feed(b"<c/>")] == [b"<c/>"]


def test_comments_after_the_last_document_are_no_document() -> None:
    assert found(b"<a/><!-- end --><?done?>\n") == [b"<a/>"]
    assert found(b"<a/><!-- end --><?xml version='1.0'?><b/>") == [
        b"<a/>",
        b"<?xml version='1.0'?><b/>",
    ]


@pytest.mark.parametrize(
    "broken",
    [
        b"<a><b></a>",
        b"<a x='1><b/></a>",
        b"<a>1 < 2</a",
        b"<a",
        b"</a></a>",
        b"<a>text",
    ],
)
def test_a_broken_document_does_not_swallow_later_ones(broken: bytes) -> None:
    documents = split(broken + b'<?xml version="1.0"?><good/><good/>', 1)
    assert [document.data for document in documents[-2:]] == [
        b'<?xml version="1.0"?><good/>',
        b"<good/>",
    ]
    assert b"".join(document.data for document in documents[:-2]) == broken


def test_a_truncated_document_is_returned_unchanged() -> None:
    assert [document.data for document in split(b"<a/><b><c/>", 4)] == [b"<a/>", b"<b><c/>"]
    assert [document.data for document in split(b"<a/><!DOCTYPE b [", 4)] == [
        b"<a/>",
        b"<!DOCTYPE b [",
    ]


def test_text_between_documents_is_reported_once_with_its_line() -> None:
    documents = split(b"<a/>\nhello you\n<b/>", 1)
    assert [document.problem[:22] for document in documents] == ["", "text between documents", ""]
    assert documents[1].location.line == 2


def test_an_internal_subset_is_reported_without_being_read() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY e "]>"><!-- ]> \' --><?pi ]> ?>]><a>&e;</a>'
    documents = split(b"<b/>" + bomb + b"<c/>", 5)
    assert [document.problem[:34] for document in documents] == [
        "",
        "the DOCTYPE has an internal subset",
        "",
    ]
    assert documents[2].data == b"<c/>"


def test_a_document_that_is_too_large_is_reported_and_the_next_one_found() -> None:
    large = b"<a>" + b"<b>text</b>\n" * 1000 + b"</a>"
    documents = split(b"\n" + large + b"<c/>", 64, max_document=500)
    assert [(p.location.line, p.problem) for p in documents] == [
        (2, "the document is larger than 500 bytes"),
        (1002, ""),
    ]
    assert documents[1].data == b"<c/>"


def test_a_document_in_one_portion_has_the_same_bound() -> None:
    documents = split(b"<a>" + b"x" * 600 + b"</a><c/>", 10_000, max_document=500)
    assert [bool(document.problem) for document in documents] == [True, False]


def test_a_comment_without_end_costs_no_more_than_the_largest_document() -> None:
    splitter = DocumentSplitter("f", 100_000)
    documents: list[RawDocument] = []
    tracemalloc.start()
    documents += splitter.feed(b"<a><!-- ")
    portion = b"x" * 65_536
    for _ in range(200):
        documents += splitter.feed(portion)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    documents += splitter.close()
    assert peak < 1_000_000
    assert len(documents) == 1
    assert "larger than 100000 bytes" in documents[0].problem
