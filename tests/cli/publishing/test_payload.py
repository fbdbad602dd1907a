from __future__ import annotations

import pytest
from lxml import etree

from broker.cli.publishing.payload import UnusableDocument, make_payload

VOE = "http://www.ivoa.net/xml/VOEvent/v2.0"
XSI = "http://www.w3.org/2001/XMLSchema-instance"


def test_a_plain_document_keeps_its_bytes() -> None:
    payload = make_payload(b'<?xml version="1.0" encoding="UTF-8"?>\n\n<a  b = "1"><c></c></a >\n')
    assert payload.element == b'<a  b = "1"><c></c></a >'
    assert payload.skipped_lines == 2
    assert payload.is_unchanged


def test_a_byte_order_mark_is_no_part_of_the_payload() -> None:
    payload = make_payload(b"\xef\xbb\xbf<?xml version='1.0'?><a>\xc3\xa9</a>")
    assert payload.element == b"<a>\xc3\xa9</a>"


def test_another_encoding_becomes_utf_8() -> None:
    document = "<?xml version='1.0' encoding='ISO-8859-1'?>\n<a b='ä'>é</a>".encode("latin-1")
    payload = make_payload(document)
    assert payload.element == '<a b="ä">é</a>'.encode()
    assert not payload.is_unchanged


def test_the_declaration_of_transcoded_bytes_is_ignored() -> None:
    document = "<?xml version='1.0' encoding='UTF-16'?><a>é</a>".encode()
    assert make_payload(document, transcoded=True).element == "<a>é</a>".encode()


def test_content_around_the_root_is_dropped() -> None:
    document = (
        b"<!-- by hand --><!DOCTYPE a SYSTEM 'a.dtd'><?style?><a><!-- in --><?p q?>b</a><!-- -->"
    )
    assert make_payload(document).element == b"<a><!-- in --><?p q?>b</a>"


@pytest.mark.parametrize(
    "root",
    [f'<v:VOEvent xmlns:v="{VOE}">#</v:VOEvent>', f'<VOEvent xmlns="{VOE}">#</VOEvent>'],
)
def test_prefixes_stay(root: str) -> None:
    assert make_payload(root.encode()).element == root.encode()


def test_a_malformed_document_is_an_error_with_its_line() -> None:
    with pytest.raises(UnusableDocument, match="not well-formed") as caught:
        make_payload(b"<a>\n<b>\n</a>")
    assert caught.value.line == 3
    assert "line" not in str(caught.value)


@pytest.mark.parametrize("document", [b"", b"<", b"<a>\x00</a>", b"\xff\xfe", b"<a>\xff</a>"])
def test_garbage_is_an_error(document: bytes) -> None:
    with pytest.raises(UnusableDocument, match="not well-formed"):
        make_payload(document)


def test_an_unknown_encoding_is_an_error() -> None:
    with pytest.raises(UnusableDocument, match="not well-formed"):
        make_payload(b"<?xml version='1.0' encoding='klingon'?><a/>")


@pytest.mark.parametrize("content", [b"<a>&who;</a>", b'<a b="&who;"/>'])
def test_an_entity_of_an_external_dtd_is_an_error(content: bytes) -> None:
    with pytest.raises(UnusableDocument, match="entity"):
        make_payload(b"<!DOCTYPE a SYSTEM 'file:///etc/hostname'>" + content)


def test_a_deep_document_is_refused_or_read_and_never_crashes() -> None:
    with pytest.raises(UnusableDocument):
        make_payload(b"<a>" * 100_000 + b"</a>" * 100_000)
    assert make_payload(b"<a>" * 200 + b"</a>" * 200).is_unchanged


def test_the_tree_is_that_of_the_document() -> None:
    assert etree.tostring(make_payload(b"<?xml version='1.0'?><a><b/></a>").root) == b"<a><b/></a>"


def test_a_comment_after_the_root_is_no_part_of_the_payload() -> None:
    payload = make_payload(b"<a>&#62;</a> <!-- <b/> -->\n")
    assert payload.element == b"<a>&gt;</a>"
    assert not payload.is_unchanged
