"""An XML Schema of a feed, made from its payloads: numbers, times, enumerations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.sax.saxutils import quoteattr

import attrs
from lxml import etree

from broker.dtd.xsd.bundle import SchemaBundle

_XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
_MAX_ENUMERATED: Final = 20
#: Tried in turn; the last one accepts each value.
_TYPES: Final = (
    ("xs:integer", re.compile(r"0|-?[1-9][0-9]{0,17}")),
    ("xs:decimal", re.compile(r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{1,9})?")),
    ("xs:dateTime", re.compile(r"[0-9]{4}-[01][0-9]-[012][0-8]T[0-9:.]{8,12}(Z|[+-][0-9:]{5})?")),
)


@attrs.define
class _Element:
    values: set[str] = attrs.field(factory=set)
    has_text: bool = False
    children: dict[str, None] = attrs.field(factory=dict)
    attributes: dict[str, set[str]] = attrs.field(factory=dict)


def infer_schema(payloads: Iterable[etree._Element]) -> SchemaBundle:
    """Return a schema that accepts the payloads, with children in any order."""
    elements: dict[str, _Element] = {}
    root = ""
    for payload in payloads:
        root = root or str(payload.tag)
        for each in payload.iter("*"):
            _add(elements, each)
    qualified = {name for each in elements.values() for name in each.attributes if name[0] == "{"}
    namespaces = list(dict.fromkeys(map(_namespace, [root, *elements, *qualified])))
    files = []
    for number, namespace in enumerate(namespaces):
        bound = "".join(f" xmlns:n{n}={quoteattr(uri)}" for n, uri in enumerate(namespaces) if uri)
        target = f" targetNamespace={quoteattr(namespace)}" if namespace else ""
        imports = "".join(
            f"<xs:import{f' namespace={quoteattr(uri)}' if uri else ''} schemaLocation='n{n}.xsd'/>"
            for n, uri in enumerate(namespaces)
            if n != number
        )
        parts = [
            _declare(name, each, namespaces)
            for name, each in elements.items()
            if _namespace(name) == namespace
        ]
        parts += [
            f"<xs:attribute name={quoteattr(_local(name))}/>"
            for name in sorted(qualified)
            if _namespace(name) == namespace
        ]
        text = (
            f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"{bound}{target} '
            f'elementFormDefault="qualified">{imports}{"".join(parts)}</xs:schema>'
        )
        files.append((f"n{number}.xsd", text.encode()))
    return SchemaBundle(tuple(files))


def _add(elements: dict[str, _Element], element: etree._Element) -> None:
    known = elements.setdefault(str(element.tag), _Element())
    known.children.update(dict.fromkeys(str(child.tag) for child in element.iterchildren("*")))
    texts = [element.text or "", *(child.tail or "" for child in element)]
    known.has_text |= any(text.strip() for text in texts)
    known.values.add(texts[0])
    for name, value in element.attrib.items():
        if not str(name).startswith(_XSI):
            known.attributes.setdefault(str(name), set()).add(str(value))


def _declare(name: str, element: _Element, namespaces: list[str]) -> str:
    attributes = "".join(
        f"<xs:attribute ref={quoteattr(_reference(each, namespaces))}/>"
        if each[0] == "{"
        else f"<xs:attribute name={quoteattr(each)}>{_simple_type(values)}</xs:attribute>"
        for each, values in element.attributes.items()
    )
    if element.children:
        refs = "".join(
            f"<xs:element ref={quoteattr(_reference(each, namespaces))}/>"
            for each in element.children
        )
        mixed = ' mixed="true"' if element.has_text else ""
        content = (
            f'<xs:complexType{mixed}><xs:choice minOccurs="0" maxOccurs="unbounded">{refs}'
            f"</xs:choice>{attributes}</xs:complexType>"
        )
    elif attributes:
        # A restriction of a simple type has no room for attributes.
        base = _type_of(element.values) or "xs:string"
        content = (
            f"<xs:complexType><xs:simpleContent><xs:extension base={quoteattr(base)}>{attributes}"
            "</xs:extension></xs:simpleContent></xs:complexType>"
        )
    else:
        content = _simple_type(element.values)
    return f"<xs:element name={quoteattr(_local(name))}>{content}</xs:element>"


def _type_of(values: set[str]) -> str | None:
    return next(
        (name for name, form in _TYPES if all(form.fullmatch(value) for value in values)), None
    )


def _simple_type(values: set[str]) -> str:
    base, inner = _type_of(values), ""
    if base is None:
        base = "xs:string"
        if len(values) <= _MAX_ENUMERATED and not any(map(str.isdigit, "".join(values))):
            inner = "".join(
                f"<xs:enumeration value={quoteattr(value)}/>" for value in sorted(values)
            )
    restriction = f"<xs:restriction base={quoteattr(base)}>{inner}</xs:restriction>"
    return f"<xs:simpleType>{restriction}</xs:simpleType>"


def _namespace(name: str) -> str:
    return name[1:].partition("}")[0] if name[0] == "{" else ""


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _reference(name: str, namespaces: list[str]) -> str:
    uri = _namespace(name)
    return f"n{namespaces.index(uri)}:{_local(name)}" if uri else _local(name)
