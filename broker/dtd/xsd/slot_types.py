"""Simple types of the texts and attributes of a schema's documents, as checks of values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from broker.dtd.xsd.slot_check import SlotCheck

_XSI: Final = "{http://www.w3.org/2001/XMLSchema-instance}"
#: These attributes change the type of an element.
_TYPE_CHANGING: Final = frozenset({f"{_XSI}type", f"{_XSI}nil"})
#: Any value is valid.
FREE: Final = SlotCheck()


class ElementSlots(msgspec.Struct, array_like=True):
    """One declaration of an element. Names are lxml's."""

    text: SlotCheck | None = None
    """None: only the text that a valid document has is known to be valid."""
    attributes: dict[str, SlotCheck] = {}
    children: dict[str, int] = {}
    """Numbers of declarations; absent names are unknown."""


class SlotTypes(msgspec.Struct, array_like=True):
    roots: dict[str, int] = {}
    declarations: list[ElementSlots] = []


_UNKNOWN: Final = ElementSlots()


class SlotWalker:
    """Follows the elements of a valid event, in document order."""

    def __init__(self, types: SlotTypes | None) -> None:
        """Without `types`, all values are free."""
        self._types = types
        self._open: list[ElementSlots | None] = []
        """None: outside of the payload, or without a schema."""

    def start(self, tag: str, attributes: Iterable[str], *, is_payload: bool) -> None:
        types = self._types
        if types is None:
            return
        parent = self._open[-1] if self._open else None
        number = None
        if is_payload:
            number = types.roots.get(tag)
        elif parent is None:
            self._open.append(None)
            return
        else:
            number = parent.children.get(tag)
        if number is None or not _TYPE_CHANGING.isdisjoint(attributes):
            self._open.append(_UNKNOWN)
        else:
            self._open.append(types.declarations[number])

    def end(self) -> None:
        if self._types is not None:
            self._open.pop()

    def text_check(self) -> SlotCheck | None:
        """Return the check of the current element's only text; None if it must not vary."""
        slots = self._open[-1] if self._open else None
        return FREE if slots is None else slots.text

    def attribute_check(self, name: str) -> SlotCheck | None:
        """Return the check of an attribute of the current element."""
        slots = self._open[-1] if self._open else None
        return FREE if slots is None else slots.attributes.get(name)
