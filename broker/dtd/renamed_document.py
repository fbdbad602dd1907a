"""Validation of documents with other prefixes than their DTD's: on a copy with the DTD's names.

libxml2 validates by the prefixes that are written. In the copy each prefix of the DTD is bound to a
namespace of its own, so that libxml2 sees the DTD's name of each element and attribute. The
declarations of namespaces are no attributes then, so a DTD with more of them validates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, Final, cast

from lxml import etree

from broker.dtd.declaration import DeclaredElement
from broker.dtd.declared_names import ENVELOPE, DeclaredNames, written_name
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE, XML_NAMESPACE

_UNDECLARED: Final = "undeclared.name"


class RenamedDocuments:
    """Tells which documents of a DTD have other prefixes, and copies them with the DTD's names."""

    def __init__(self, names: DeclaredNames, elements: Mapping[str, DeclaredElement]) -> None:
        self._names = names
        self._declared = set(elements)
        for element in elements.values():
            self._declared |= {each.qualified_name for each in element.attributes}
        self._prefixes = frozenset(_prefixes_of(elements.values())) - {"xml", "xmlns", ""}
        self._namespaces = {
            prefix: NAMESPACE if prefix == ENVELOPE_PREFIX else f"urn:xmlbroker:prefix:{prefix}"
            for prefix in self._prefixes | {ENVELOPE_PREFIX}
        }
        self._all_namespaces = {**self._namespaces, "xml": XML_NAMESPACE}
        self._uris = frozenset(names.namespaces.values())
        self._required = {
            (element.qualified_name, attribute.qualified_name)
            for element in elements.values()
            for attribute in element.attributes
            if attribute.declares_prefix is not None and attribute.required
        }

    def is_renamed(self, root: etree._Element) -> bool:
        """Return True if a name of the document differs from the DTD's name.

        If a namespace has two prefixes, it may be wrong about an attribute. Then the document is
        not valid as written, and the copy is validated.
        """
        if not self._uris or self._has_declared_bindings(root):
            return False
        names = self._names
        return any(
            names.element_name(str(element.tag), element.prefix)
            != written_name(str(element.tag), element.prefix)
            or any(
                names.attribute_name(tag, prefix) != written_name(tag, prefix)
                for tag, prefix in prefixed_attributes(element)
            )
            for element in root.iter("*")
        )

    def _has_declared_bindings(self, root: etree._Element) -> bool:
        """Return True if each binding of a declared prefix or namespace is that of the DTD.

        It takes a tenth of the time of a comparison of all names.
        """
        declared, uris = self._names.namespaces, self._uris
        for _, (prefix, uri) in etree.iterwalk(root, events=("start-ns",)):
            if declared.get(prefix, "") != uri and (uri in uris or prefix in declared):
                return False
        return True

    def copy(self, root: etree._Element) -> etree._Element:
        """Return a copy of the envelope with the DTD's names, with the same lines."""
        parents: list[etree._Element] = []
        copied = None
        for event, node in etree.iterwalk(root, events=("start", "end", "comment", "pi")):
            if event == "end":
                copied = parents.pop()
            elif event == "start":
                made = self._copy_element(node, parents[-1] if parents else None)
                parents.append(made)
            else:
                made = etree.Comment() if event == "comment" else etree.PI("copied")
                parents[-1].append(made)
            if event != "end":
                made.tail = node.tail
        assert copied is not None
        return copied

    def _copy_element(
        self, element: etree._Element, parent: etree._Element | None
    ) -> etree._Element:
        names = self._names
        tag = self._tag_of(names.element_name(str(element.tag), element.prefix))
        if parent is None:
            copied = etree.Element(tag, nsmap=cast(Any, self._namespaces))
        else:
            copied = etree.SubElement(parent, tag)
        copied.sourceline = element.sourceline
        copied.text = element.text
        prefixes = dict(prefixed_attributes(element))
        for key, value in element.attrib.items():
            name = names.attribute_name(str(key), prefixes.get(str(key)))
            copied.set(self._tag_of(name), value)
        return copied

    def _tag_of(self, name: str) -> str:
        if name not in self._declared:
            # libxml2 would keep the names of a tree until the process ends.
            return _UNDECLARED
        prefix, colon, local = name.rpartition(":")
        return f"{{{self._all_namespaces[prefix]}}}{local}" if colon else local

    def find_undeclared(self, root: etree._Element) -> etree._Element | None:
        """Return the first element that the DTD does not declare."""
        name_of = self._names.element_name
        for element in root.iter("*"):
            if name_of(str(element.tag), element.prefix) not in self._declared:
                return element
        return None

    def compile_dtd(self, text: bytes) -> etree.DTD:
        """Return the DTD with this text, for copies."""
        allowed = {(ENVELOPE, f"xmlns:{prefix}") for prefix in self._prefixes - {ENVELOPE_PREFIX}}
        # The first declaration of an attribute binds.
        optional = "".join(
            f"<!ATTLIST {element} {attribute} CDATA #IMPLIED>\n"
            for element, attribute in sorted(allowed | self._required)
        )
        return etree.DTD(BytesIO(optional.encode() + text))


def prefixed_attributes(element: etree._Element) -> Iterator[tuple[str, str]]:
    """Yield lxml's name and the prefix of each attribute that has a prefix.

    lxml does not tell the prefix. If several have the namespace, it is the last one by name.
    """
    bindings: dict[str, str] | None = None
    for tag in map(str, element.keys()):
        if tag[0] == "{":
            if bindings is None:
                bound = sorted((prefix, uri) for prefix, uri in element.nsmap.items() if prefix)
                bindings = {uri: prefix for prefix, uri in [*bound, ("xml", XML_NAMESPACE)]}
            yield tag, bindings[tag[1 : tag.rfind("}")]]


def _prefixes_of(elements: Iterable[DeclaredElement]) -> Iterator[str]:
    for element in elements:
        yield element.prefix or ""
        yield from (attribute.prefix or "" for attribute in element.attributes)
