"""Positions in errors of the byte checks."""

from __future__ import annotations

import pytest

from broker.errors import TooLarge
from broker.matching.document_limits import DocumentLimits, count_markup
from broker.matching.screening import (
    check_entity_references,
    find_undefined_entity,
    line_and_column,
    screen_document,
)


def test_lines_and_columns_count_characters_from_one() -> None:
    text = "a\nbé\u20ac\n".encode()
    assert line_and_column(text, 0) == (1, 1)
    assert line_and_column(text, 2) == (2, 1)
    assert line_and_column(text, 5) == (2, 3)
    assert line_and_column(text, 9) == (3, 1)


def test_references_are_searched_from_the_start_offset() -> None:
    document = b"<!DOCTYPE a '&x;'><a>&lt;<!-- &y; --></a>"
    check_entity_references(document, 18)
    assert find_undefined_entity(document, 0) == (13, "x")
    assert find_undefined_entity(document + b"&z", 18) == (len(document), "z")


def test_tags_and_attributes_of_a_document_are_bounded() -> None:
    limits = DocumentLimits(max_markup=5)
    for document in (
        b"<a><b/><b/></a>",
        b'<a b="1" c = \'2\' d=\n"3"></a>',
        b"<a><?b?><!--b--></a>",
        # Text is not markup.
        b"<a>b = 1, c == 2; d=3 &amp; e=4</a>",
    ):
        screen_document(document, limits)
        more = document.replace(b"</a>", b"<c x='1'/></a>").replace(b"<b/>", b"<b/><b/>")
        if b"&amp;" in document:
            screen_document(more, limits)
            continue
        with pytest.raises(TooLarge, match="more than 5 tags and attributes"):
            screen_document(more, limits)


def test_few_equals_signs_are_not_examined() -> None:
    text = b"<a>b = 1, c = '2'</a>"
    assert count_markup(text, 4) == 4
    assert count_markup(text, 3) == 3
