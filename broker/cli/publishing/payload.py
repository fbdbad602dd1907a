"""Conversion of a document into a payload: one element in UTF-8. Most keep their bytes."""

from __future__ import annotations

import re
import threading
from typing import Any, Final, cast

import attrs
from lxml import etree

from broker.event.encoding import is_utf8


class _Parsers(threading.local):
    """Parsers of each thread: libxml2 frees the names of documents with the thread."""

    def __init__(self) -> None:
        self.by_encoding = {
            encoding: etree.XMLParser(
                resolve_entities=False,
                no_network=True,
                load_dtd=False,
                huge_tree=False,
                encoding=encoding,
            )
            for encoding in (None, "utf-8")
        }


_parsers: Final = _Parsers()
_HEAD = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*+(?:<\?xml[ \t\r\n][^>]*?\?>)?[ \t\r\n]*+")
#: libxml2's own text for the position in the document.
_PLACE = re.compile(r",? line \d+(?:, column \d+)?")
#: The parser rejects it; with a DOCTYPE it may silently omit it in an attribute.
_ENTITY = re.compile(rb"&(?!#|amp;|lt;|gt;|quot;|apos;)")
_XSI_TYPE: Final = "{http://www.w3.org/2001/XMLSchema-instance}type"


class UnusableDocument(Exception):
    """`line` counts from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


@attrs.frozen
class Payload:
    element: bytes
    root: etree._Element
    skipped_lines: int
    """Lines of the document before the payload's first."""
    is_unchanged: bool


def make_payload(document: bytes, *, transcoded: bool = False) -> Payload:
    """Raises `UnusableDocument`.

    A `transcoded` document is in UTF-8 regardless of its declaration.
    """
    try:
        root = etree.fromstring(document, _parsers.by_encoding["utf-8" if transcoded else None])
    except etree.XMLSyntaxError as error:
        line = error.lineno or 1
        reason = _PLACE.sub("", error.msg or "the document is empty")
        raise UnusableDocument(f"not well-formed: {reason}", line) from None
    except (ValueError, LookupError) as error:
        raise UnusableDocument(f"not well-formed: {error}") from None
    version = cast(Any, root.getroottree().docinfo).xml_version
    if version != "1.0":
        raise UnusableDocument(
            f"it declares XML {version[:40]}, and only 1.0 is accepted: declare version 1.0"
        )
    if cast(Any, root.getroottree().docinfo).doctype and _ENTITY.search(document):
        raise UnusableDocument("it uses an entity other than the five predefined ones")
    head = _HEAD.match(document)
    start = head.end() if head is not None else 0
    skipped = document.count(b"\n", 0, start)
    encoding = root.getroottree().docinfo.encoding or "UTF-8"
    # Then the root element is the rest of the document.
    plain = document[start + 1 : start + 2] not in b"!?" and root.getnext() is None
    plain = plain and (transcoded or is_utf8(encoding))
    if plain:
        return Payload(document[start:].rstrip(b" \t\r\n"), root, skipped, is_unchanged=True)
    element = etree.tostring(root, encoding="UTF-8", xml_declaration=False, with_tail=False)
    return Payload(element, root, 0, is_unchanged=False)
