"""Tells whether prefixes are the only reason for which an event is not valid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from io import BytesIO
from typing import Any, cast

from lxml import etree

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import written_name


class PrefixHint:
    """Compares events with the DTD without the prefixes of both."""

    def __init__(self, text: bytes, elements: Iterable[DeclaredElement]) -> None:
        self._declared: dict[str, str] = {}
        self._local_names: set[str] = set()
        prefixes: set[str] = set()
        for element in elements:
            self._declared[element.name] = element.qualified_name
            self._local_names |= {element.name, *(each.name for each in element.attributes)}
            prefixes |= {element.prefix or "", *(each.prefix or "" for each in element.attributes)}
        names = "|".join(map(re.escape, sorted(prefixes - {"", "xml", "xmlns"})))
        pattern = re.compile(rf"(?<=[ (|,])(?:{names}):")
        self._dtd: etree.DTD | None
        try:
            self._dtd = etree.DTD(BytesIO(pattern.sub("", text.decode()).encode()))
        except etree.DTDParseError:
            # Two elements differ in nothing but their prefixes.
            self._dtd = None

    def find(self, root: etree._Element) -> str | None:
        """Return the reason for which `root` is not valid, if it is valid without prefixes."""
        copied, different = self._without_prefixes(root), None
        for element in root.iter("*"):
            written = written_name(str(element.tag), element.prefix)
            declared = self._declared.get(etree.QName(element).localname)
            if declared not in (None, written):
                different = written, declared, etree.QName(element).namespace
                break
        if self._dtd is None or different is None:
            return None
        is_valid = self._dtd.validate(copied)
        cast(Any, self._dtd)._clear_error_log()
        if not is_valid:
            return None
        written, declared, namespace = different
        prefix = str(declared).partition(":")[0] if ":" in str(declared) else ""
        attribute = f"xmlns:{prefix}" if prefix else "xmlns"
        return (
            f"only its prefixes are not those of the DTD: it has {written}, the DTD has {declared}."
            f" If the DTD declares {attribute} as #FIXED {str(namespace or '')!r}, "
            "any prefix is valid"
        )

    def _without_prefixes(self, root: etree._Element) -> etree._Element:
        copied = etree.Element(self._local_name(str(root.tag)))
        parents = [copied]
        for event, node in etree.iterwalk(root, events=("start", "end"), tag="*"):
            if event == "end":
                parents.pop()
                continue
            if node is root:
                made = copied
            else:
                made = etree.SubElement(parents[-1], self._local_name(str(node.tag)))
                made.tail = node.tail
            made.text = node.text
            for key, value in node.attrib.items():
                made.set(self._local_name(str(key)), value)
            parents.append(made)
        return copied

    def _local_name(self, tag: str) -> str:
        local = tag[tag.rfind("}") + 1 :]
        # libxml2 would keep the names of a tree until the process ends.
        return local if local in self._local_names else "undeclared.name"
