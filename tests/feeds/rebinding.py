"""The same document with other prefixes."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from random import Random
from typing import Any, Final

from lxml import etree

_XML: Final = "http://www.w3.org/XML/1998/namespace"
XSI_TYPE: Final = "{http://www.w3.org/2001/XMLSchema-instance}type"
#: Some are in use in feeds, for other namespaces.
_PREFIXES: Final = ("ns2", "ns3", "ns4", "ns5", "gml", "a", "cap", "é", "_", "fdm", "ds", "iwxxm")


def rebind(payload: bytes, chance: Random) -> bytes:
    """Return the payload with the same expanded names, and all bindings in its start tag."""
    root = etree.fromstring(payload)
    elements = [_uri(each.tag) for each in root.iter("*")]
    used = {*elements, *(uri for each in root.iter("*") for uri in _uris_of_attributes(each))}
    named = sorted(used - {"", _XML})
    prefixes: list[str | None] = list(chance.sample(_PREFIXES, len(named)))
    nsmap: dict[str | None, str] = dict(zip(prefixes, named, strict=True))
    if "" not in elements and chance.random() < 0.5:
        # Elements without prefix are in one of the namespaces.
        nsmap[None] = chance.choice(named)
    target = etree.Element(root.tag, None, nsmap)  # type: ignore[arg-type]
    _copy(root, target, {uri: prefix for prefix, uri in nsmap.items() if prefix})
    return etree.tostring(target, encoding="unicode").encode()


def _copy(source: Any, target: Any, prefixes: dict[str, str]) -> None:
    target.text = source.text
    for name, value in source.attrib.items():
        if name == XSI_TYPE:
            prefix, _, local = value.rpartition(":")
            known = prefixes.get(source.nsmap.get(prefix or None, ""))
            value = f"{known}:{local}" if known else value
        target.set(name, value)
    for child in source:
        if isinstance(child.tag, str):
            copied: Any = etree.SubElement(target, child.tag)
            _copy(child, copied, prefixes)
        else:
            copied = copy(child)
            target.append(copied)
        copied.tail = child.tail


def _uris_of_attributes(element: Any) -> Iterator[str]:
    for name, value in element.attrib.items():
        yield _uri(name)
        if name == XSI_TYPE:
            yield element.nsmap.get(value.rpartition(":")[0] or None, "")


def _uri(name: str) -> str:
    return name[1:].partition("}")[0] if name[:1] == "{" else ""
