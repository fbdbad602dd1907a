"""Documents with equal tags, attribute names and empty leaves, and their varying attributes.

Attributes are constants at first, so that conditions such as `@name="SC_Lat"` are decided once per
shape. Documents with different ones are *variants*. With too many of them, the attributes that vary
most become slots.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Set
from fractions import Fraction
from typing import TYPE_CHECKING

import attrs

from broker.matching.shape.document_cut import AttributeClass, DocumentCut, Token

if TYPE_CHECKING:
    from broker.matching.shape.shape import Shape

#: An attribute becomes a slot with this share of the most varied one's number of values.
_AS_VARIED: Fraction = Fraction(3, 4)


@attrs.define(eq=False)
class Variant:
    """One choice of the constant attributes; `values` are their hashes in order."""

    values: array[int]
    shape: Shape | None = None


class Skeleton:
    __slots__ = ("_classes", "slot_attributes", "variants")

    def __init__(self, cut: DocumentCut, generalised: Set[AttributeClass]) -> None:
        self._classes = frozenset(
            token.attribute for token in cut.tokens if token.attribute is not None
        )
        self.slot_attributes: frozenset[AttributeClass] = self._classes & generalised
        self.variants: dict[bytes, Variant] = {}

    def find_variant(self, cut: DocumentCut) -> Variant | None:
        return self.variants.get(self.variant_key(cut))

    def add_variant(self, cut: DocumentCut) -> Variant:
        values = array(
            "q",
            (hash(cut.document[token.start : token.end]) for token in self._constant_tokens(cut)),
        )
        variant = self.variants[self.variant_key(cut)] = Variant(values)
        return variant

    def variant_key(self, cut: DocumentCut) -> bytes:
        document = cut.document
        return _digest([document[token.start : token.end] for token in self._constant_tokens(cut)])

    def slot_tokens(self, cut: DocumentCut) -> tuple[Token, ...]:
        return tuple(
            token
            for token in cut.tokens
            if token.attribute is None or token.attribute in self.slot_attributes
        )

    def generalise(self, attributes: Set[AttributeClass]) -> list[Shape]:
        slots = self.slot_attributes | (self._classes & attributes)
        if slots == self.slot_attributes:
            return []
        self.slot_attributes = slots
        shapes = self.shapes()
        self.variants.clear()
        return shapes

    def shapes(self) -> list[Shape]:
        return [each.shape for each in self.variants.values() if each.shape is not None]

    def can_generalise(self, attributes: Set[AttributeClass]) -> bool:
        return not (self._classes & attributes) <= self.slot_attributes

    def most_varied_attributes(self, cut: DocumentCut) -> frozenset[AttributeClass]:
        """Return the attributes with the most values among the variants, one of them `cut`.

        Values are counted per occurrence. So a class with one value at each occurrence, such as
        names of parameters, does not count as varied.
        """
        value_counts: dict[AttributeClass, int] = {}
        columns = zip(*(variant.values for variant in self.variants.values()), strict=True)
        for token, column in zip(self._constant_tokens(cut), columns, strict=True):
            if token.attribute is not None:
                known = value_counts.get(token.attribute, 0)
                value_counts[token.attribute] = max(known, len(set(column)))
        max_count = max(value_counts.values())
        return frozenset(
            name for name, count in value_counts.items() if count >= _AS_VARIED * max_count
        )

    def _constant_tokens(self, cut: DocumentCut) -> list[Token]:
        return [
            token
            for token in cut.tokens
            if token.attribute is not None and token.attribute not in self.slot_attributes
        ]


def skeleton_key(cut: DocumentCut) -> bytes:
    return _digest(cut.constants_around(cut.tokens))


def _digest(parts: list[bytes]) -> bytes:
    # Documents contain no NUL.
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
