"""Limits on the size of a document."""

from __future__ import annotations

import re
from typing import Final

import attrs

#: The limit of libxml2 without `huge_tree`.
LIBXML2_MAX_DEPTH = 256
#: Few documents have more levels of elements.
SHALLOW_DEPTH = 16
#: Markup of an event. The largest known message of a real feed has 11,020.
MAX_MARKUP: Final = 16_384
_ATTRIBUTE = re.compile(rb"""=[ \t\r\n]*["']""")


def _within_libxml2(_instance: object, _attribute: object, value: int) -> None:
    if not 1 <= value <= LIBXML2_MAX_DEPTH:
        raise ValueError(f"max_depth must be 1 to {LIBXML2_MAX_DEPTH}, libxml2's own limit")


@attrs.frozen
class DocumentLimits:
    """Limits for one event. Events beyond them are refused with `TooLarge`.

    `max_depth` includes the envelope's elements. `max_attributes` holds for one element,
    `max_markup` for the tags, comments, instructions and attributes of the document.
    """

    max_bytes: int = 1024 * 1024
    max_depth: int = attrs.field(default=LIBXML2_MAX_DEPTH, validator=_within_libxml2)
    max_attributes: int = 256
    max_markup: int = MAX_MARKUP


def count_markup(document: bytes, enough: int) -> int:
    """Return the number of tags, comments, instructions and attributes.

    A number of at most `enough` may be too high: it includes each equals sign. A higher one
    includes those before a quotation mark only, which text seldom has.
    """
    tags = document.count(b"<")
    marks = tags + document.count(b"=")
    return marks if marks <= enough else tags + len(_ATTRIBUTE.findall(document))
