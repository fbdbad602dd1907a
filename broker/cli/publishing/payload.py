"""Conversion of a document into a payload: one element in UTF-8, with the DTD's prefixes.

A DTD sees prefixes as written (K26). Most documents keep their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from typing import Any, Final, cast

import attrs
from lxml import etree

from broker.cli.publishing.known_types import PREFIXES
from broker.event.encoding import is_utf8

_PARSERS: Final = {
    encoding: etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        encoding=encoding,
    )
    for encoding in (None, "utf-8")
}
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
        root = etree.fromstring(document, _PARSERS["utf-8" if transcoded else None])
    except etree.XMLSyntaxError as error:
        line = error.lineno or 1
        reason = _PLACE.sub("", error.msg or "the document is empty")
        raise UnusableDocument(f"not well-formed: {reason}", line) from None
    except (ValueError, LookupError) as error:
        raise UnusableDocument(f"not well-formed: {error}") from None
    if cast(Any, root.getroottree().docinfo).doctype and _ENTITY.search(document):
        raise UnusableDocument("it uses an entity other than the five predefined ones")
    head = _HEAD.match(document)
    start = head.end() if head is not None else 0
    skipped = document.count(b"\n", 0, start)
    encoding = root.getroottree().docinfo.encoding or "UTF-8"
    # Then the root element is the rest of the document.
    plain = document[start + 1 : start + 2] not in b"!?" and root.getnext() is None
    plain = plain and (transcoded or is_utf8(encoding))
    renamed = _prefixes_to_rename(root)
    if plain and not renamed:
        return Payload(document[start:].rstrip(b" \t\r\n"), root, skipped, is_unchanged=True)
    if renamed:
        root = _rename_prefixes(root, renamed)
    element = etree.tostring(root, encoding="UTF-8", xml_declaration=False, with_tail=False)
    return Payload(element, root, 0, is_unchanged=False)


def _prefixes_to_rename(root: etree._Element) -> dict[str, str]:
    wanted = PREFIXES.get(etree.QName(root).localname)
    if wanted is None:
        return {}
    bound = {binding for _, binding in etree.iterwalk(root, events=("start-ns",))}
    renamed = {
        prefix: wanted[uri] for prefix, uri in bound if prefix and wanted.get(uri, prefix) != prefix
    }
    taken = {prefix for prefix, uri in bound if wanted.get(uri) is None}
    if clash := taken & set(renamed.values()):
        raise UnusableDocument(
            f"the prefix {min(clash)!r} is bound to another namespace than the DTD has"
        )
    return renamed


def _rename_prefixes(element: etree._Element, renamed: Mapping[str, str]) -> etree._Element:
    """Return a copy: lxml can not rename in place."""

    def bindings(found: etree._Element) -> Any:
        return {renamed.get(p or "", p): str(uri) for p, uri in found.nsmap.items()}

    def fill(made: etree._Element, original: etree._Element) -> None:
        made.text = original.text
        for child in original:
            if isinstance(child.tag, str):
                inner = etree.SubElement(made, child.tag, None, bindings(child))
                fill(inner, child)
                inner.tail = child.tail
            else:
                made.append(_copy_node(child))
        for name, value in original.attrib.items():
            prefix, colon, local = str(value).partition(":")
            if name == _XSI_TYPE and colon and prefix.strip() in renamed:
                value = f"{renamed[prefix.strip()]}:{local}"
            made.set(name, value)

    root = etree.Element(element.tag, None, bindings(element))
    fill(root, element)
    return root


def _copy_node(node: etree._Element) -> etree._Element:
    made = copy(node)
    made.tail = node.tail
    return made
