"""Statistics of sample documents, from which a DTD is inferred.

The documents are not stored. `MAX_ELEMENTS` and `MAX_ENTRIES` bound the names.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import attrs
from lxml import etree

from broker.dtd.derivation.child_sequences import ChildSequences
from broker.dtd.derivation.prefix_table import PrefixUse
from broker.errors import BadDtd
from broker.event.envelope import NAMESPACE

#: Distinct names of elements. A DTD of a node may have 10,000 declarations.
MAX_ELEMENTS: Final = 4_000
#: Names of elements, and of the children, attributes and prefixes of each.
MAX_ENTRIES: Final = 50_000
#: Distinct values of an attribute that are counted, and their length.
MAX_VALUES: Final = 8
MAX_VALUE: Final = 40
#: Distinct roots.
MAX_ROOTS: Final = 100

_BLANK: Final = " \t\r\n"


@attrs.define
class AttributeStatistics:
    count: int = 0
    values: set[str] | None = attrs.field(factory=set)
    """None: too many or too long."""

    def add(self, value: str) -> None:
        self.count += 1
        if self.values is not None and value not in self.values:
            if len(value) > MAX_VALUE or len(self.values) >= MAX_VALUES:
                self.values = None
            else:
                self.values.add(value)


@attrs.define
class ElementStatistics:
    children: ChildSequences = attrs.field(factory=ChildSequences)
    with_text: int = 0
    is_always_empty: bool = True
    """Without white space and comments too."""
    attributes: dict[str, AttributeStatistics] = attrs.field(factory=dict)
    bindings: dict[str, set[str]] = attrs.field(factory=dict)
    """Namespaces by declared prefix, two at most."""

    @property
    def count(self) -> int:
        return self.children.count


class SampleStatistics:
    def __init__(self) -> None:
        self.documents = 0
        self.roots: Counter[str] = Counter()
        self.elements: dict[str, ElementStatistics] = {}
        self.prefixes = PrefixUse()
        self._entries = 0

    def add_payload(self, root: etree._Element) -> None:
        """Raises `BadDtd` if the names are too many, or one is in the envelope's namespace."""
        self.documents += 1
        self.roots[str(root.tag)] += 1
        if len(self.roots) > MAX_ROOTS:
            raise BadDtd(f"the samples have more than {MAX_ROOTS} distinct root elements")
        declared: list[tuple[str, str]] = []
        for event, found in etree.iterwalk(root, events=("start-ns", "start")):
            if event == "start-ns":
                declared.append((str(found[0] or ""), str(found[1] or "")))
            elif isinstance(found.tag, str):
                self._add_element(found, declared)
                declared.clear()

    def _add_element(self, element: Any, declared: list[tuple[str, str]]) -> None:
        tag = element.tag
        if tag.startswith(f"{{{NAMESPACE}}}"):
            raise BadDtd(f"a payload has an element of the envelope's namespace: {tag[:120]}")
        statistics = self.elements.get(tag)
        if statistics is None:
            if len(self.elements) >= MAX_ELEMENTS:
                raise _too_many(f"{MAX_ELEMENTS:,} names of elements")
            statistics = self.elements[tag] = ElementStatistics()
            self._count_entry()
        self.prefixes.add_element(tag, element.prefix or "")
        self._add_content(element, statistics)
        for name, value in element.attrib.items():
            self._add_attribute(element, statistics, name, value)
        for prefix, uri in declared:
            self.prefixes.add_binding(prefix, uri)
            uris = statistics.bindings.get(prefix)
            if uris is None:
                uris = statistics.bindings[prefix] = set()
                self._count_entry()
            if len(uris) < 2:
                uris.add(uri)

    def _add_content(self, element: Any, statistics: ElementStatistics) -> None:
        texts = [element.text]
        names = []
        for child in element:
            texts.append(child.tail)
            if isinstance(child.tag, str):
                names.append(child.tag)
        known = len(statistics.children.names)
        statistics.children.add(names)
        self._count_entry(len(statistics.children.names) - known)
        statistics.with_text += any(text and text.strip(_BLANK) for text in texts)
        if len(element) or element.text:
            statistics.is_always_empty = False

    def _add_attribute(
        self, element: Any, statistics: ElementStatistics, name: str, value: str
    ) -> None:
        known = statistics.attributes.get(name)
        if known is None:
            known = statistics.attributes[name] = AttributeStatistics()
            self._count_entry()
        known.add(value)
        if name.startswith("{"):
            uri = name[1 : name.rindex("}")]
            for prefix, bound in element.nsmap.items():
                if bound == uri and prefix:
                    self.prefixes.add_attribute(name, prefix)
                    break

    def _count_entry(self, number: int = 1) -> None:
        self._entries += number
        if self._entries > MAX_ENTRIES:
            raise _too_many(f"{MAX_ENTRIES:,} names of elements, and of their parts")


def _too_many(bound: str) -> BadDtd:
    return BadDtd(
        f"the samples have more than {bound}: names that are data can not be described by a DTD"
    )
