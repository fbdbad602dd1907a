from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.publishing.document_splitter import DocumentSplitter
from broker.cli.publishing.publication import RawDocument

#: Documents that hide their ends, one way or another.
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
    pieces = [
        piece for at in range(0, len(data), step) for piece in splitter.feed(data[at : at + step])
    ]
    return pieces + splitter.close()


def found(data: bytes, step: int = 1 << 16) -> list[bytes]:
    pieces = split(data, step)
    assert not [piece.problem for piece in pieces if piece.problem]
    return [piece.data for piece in pieces]


@pytest.mark.parametrize("step", [1, 2, 7, 64, 4096])
def test_a_hundred_documents_without_separators_are_told_apart(step: int) -> None:
    documents = [TRICKY[number % len(TRICKY)] for number in range(100)]
    assert found(b"".join(documents), step) == documents


@given(
    st.lists(st.tuples(st.sampled_from(TRICKY), st.sampled_from([b"", b"\n", b" \r\n\t"]))),
    st.integers(1, 200),
)
def test_it_does_not_matter_how_the_bytes_come(
    documents: list[tuple[bytes, bytes]], step: int
) -> None:
    data = b"".join(document + space for document, space in documents)
    assert found(data, step) == [document for document, _ in documents]


@given(st.binary(max_size=300), st.integers(1, 50))
def test_whatever_comes_in_the_end_is_reached(data: bytes, step: int) -> None:
    for piece in split(data, step):
        assert piece.problem or piece.data in data


@given(st.lists(st.sampled_from(b"<a> </a> <! <?x ?> <!-- --> ' ] text <![CDATA[".split())))
def test_broken_markup_is_cut_the_same_however_it_comes(tokens: list[bytes]) -> None:
    data = b"".join(tokens)
    assert [p.data for p in split(data, 1)] == [p.data for p in split(data, 1 << 16)]


def test_a_byte_order_mark_between_documents_is_no_text() -> None:
    mark = b"\xef\xbb\xbf"
    assert found(mark + b"<a/>\n" + mark + b"<b/>", 1) == [b"<a/>", b"<b/>"]


def test_each_document_knows_its_line() -> None:
    pieces = split(b"\n\n<a>\n</a><b/>\n<c/>", 3)
    assert [str(piece.location) for piece in pieces] == ["f:3", "f:4", "f:5"]


def test_the_last_document_of_a_slow_pipe_does_not_wait_for_the_next() -> None:
    splitter = DocumentSplitter("f")
    assert [piece.data for piece in splitter.feed(b"<a><b/></a>")] == [b"<a><b/></a>"]
    assert [piece.data for piece in splitter.feed(b"<c/>")] == [b"<c/>"]


def test_comments_behind_the_last_document_are_no_document() -> None:
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
def test_a_broken_document_does_not_swallow_those_behind_it(broken: bytes) -> None:
    pieces = split(broken + b'<?xml version="1.0"?><good/><good/>', 1)
    assert [piece.data for piece in pieces[-2:]] == [b'<?xml version="1.0"?><good/>', b"<good/>"]
    assert b"".join(piece.data for piece in pieces[:-2]) == broken


def test_a_document_that_is_cut_off_is_given_as_it_is() -> None:
    assert [piece.data for piece in split(b"<a/><b><c/>", 4)] == [b"<a/>", b"<b><c/>"]
    assert [piece.data for piece in split(b"<a/><!DOCTYPE b [", 4)] == [b"<a/>", b"<!DOCTYPE b ["]


def test_text_between_documents_is_told_once_with_its_line() -> None:
    pieces = split(b"<a/>\nhello you\n<b/>", 1)
    assert [piece.problem[:22] for piece in pieces] == ["", "text between documents", ""]
    assert pieces[1].location.line == 2


def test_an_internal_subset_is_told_without_being_read() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY e "]>"><!-- ]> \' --><?pi ]> ?>]><a>&e;</a>'
    pieces = split(b"<b/>" + bomb + b"<c/>", 5)
    assert [piece.problem for piece in pieces] == ["", "the DOCTYPE has an internal subset", ""]
    assert pieces[2].data == b"<c/>"


def test_a_document_that_is_too_large_is_told_and_the_next_one_is_found() -> None:
    large = b"<a>" + b"<b>text</b>\n" * 1000 + b"</a>"
    pieces = split(b"\n" + large + b"<c/>", 64, max_document=500)
    assert [(p.location.line, p.problem) for p in pieces] == [
        (2, "the document is larger than 500 bytes"),
        (1002, ""),
    ]
    assert pieces[1].data == b"<c/>"


def test_a_document_that_comes_at_once_may_not_be_too_large_either() -> None:
    pieces = split(b"<a>" + b"x" * 600 + b"</a><c/>", 10_000, max_document=500)
    assert [bool(piece.problem) for piece in pieces] == [True, False]


def test_a_comment_without_end_costs_no_more_than_the_largest_document() -> None:
    splitter = DocumentSplitter("f", 100_000)
    pieces: list[RawDocument] = []
    tracemalloc.start()
    pieces += splitter.feed(b"<a><!-- ")
    portion = b"x" * 65_536
    for _ in range(200):
        pieces += splitter.feed(portion)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    pieces += splitter.close()
    assert peak < 1_000_000
    assert len(pieces) == 1
    assert "larger than 100000 bytes" in pieces[0].problem
