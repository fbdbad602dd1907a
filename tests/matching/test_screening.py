"""Positions in errors of the byte checks."""

from __future__ import annotations

from broker.matching.screening import (
    check_entity_references,
    find_undefined_entity,
    line_and_column,
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
