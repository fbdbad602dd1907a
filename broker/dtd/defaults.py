"""Attributes that a DTD supplies where a document leaves them out (T21)."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from broker.dtd.declaration import DeclaredAttribute, DeclaredElement
from broker.dtd.declared_names import DeclaredNames, fixed_namespaces
from broker.errors import BadDtd
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE

_EVENT_TYPE = f"{{{NAMESPACE}}}EventType"


class DefaultAttributes:
    """Attributes that a DTD supplies where a document leaves them out (T21).

    Raises `BadDtd` for a default with a prefix whose namespace is not `#FIXED`.
    """

    def __init__(self, elements: Iterable[DeclaredElement], names: DeclaredNames) -> None:
        elements = tuple(elements)
        namespaces = fixed_namespaces(elements)
        self._names = names
        self._by_element: dict[str, tuple[tuple[str, str], ...]] = {}
        for element in elements:
            supplied = tuple(
                (_clark_name(attribute, element, namespaces), attribute.default)
                for attribute in element.attributes
                if attribute.default is not None and attribute.declares_prefix is None
            )
            if supplied:
                self._by_element[element.qualified_name] = supplied
        # Each event has this element at a known place; most types have no other default.
        self._event_type = self._by_element.pop(f"{ENVELOPE_PREFIX}:EventType", ())
        # A prefix may go with any namespace.
        self._tags = tuple({f"{{*}}{name.rpartition(':')[2]}" for name in self._by_element})

    def apply(self, root: etree._Element) -> None:
        if self._event_type:
            self._apply_to_event_type(root)
        if not self._tags:
            return
        by_element, name_of = self._by_element, self._names.element_name
        for element in root.iter(*self._tags):
            supplied = by_element.get(name_of(str(element.tag), element.prefix))
            if supplied is not None:
                for name, value in supplied:
                    if element.get(name) is None:
                        element.set(name, value)

    def _apply_to_event_type(self, root: etree._Element) -> None:
        element: etree._Element | None = root[2] if len(root) > 2 else None
        if element is None or element.tag != _EVENT_TYPE:
            # A comment or an instruction is before it.
            element = root.find(_EVENT_TYPE)
        if element is not None:
            for name, value in self._event_type:
                if element.get(name) is None:
                    element.set(name, value)


def _clark_name(
    attribute: DeclaredAttribute, element: DeclaredElement, namespaces: dict[str, str]
) -> str:
    if attribute.prefix is None:
        return attribute.name
    namespace = namespaces.get(attribute.prefix)
    if namespace is None:
        raise BadDtd(
            f"attribute {attribute.qualified_name!r} of {element.qualified_name!r} has a default, "
            f"but no #FIXED xmlns:{attribute.prefix} gives its namespace"
        )
    return f"{{{namespace}}}{attribute.name}"
