"""Documents alike in tags, attribute names and empty leaves, and which of their attributes vary.

Texts are slots from the start. Attributes that may hold anything are constants at first, since
much of what queries ask (`@name="SC_Lat"`) is then decided once for a shape. Documents of one
skeleton with different attributes are its *variants*. When there are more of them than are worth a
shape each, the attributes that vary most become slots.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Set
from fractions import Fraction
from typing import TYPE_CHECKING

import attrs

from broker.matching.shape.document_cut import DocumentCut, Token
from broker.matching.shape.eligible_values import AttributeClass

if TYPE_CHECKING:
    from broker.matching.shape.shape import Shape

#: An attribute becomes a slot if it has this share of what the most varied one has of values.
_AS_VARIED: Fraction = Fraction(3, 4)


@attrs.define(eq=False)
class Variant:
    """One choice of the attributes that are constants; `values` are hashes of them, in order."""

    values: array[int]
    shape: Shape | None = None


class Skeleton:
    """What is remembered of a skeleton: the attributes that are slots in it, and its variants."""

    __slots__ = ("_classes", "slot_attributes", "variants")

    def __init__(self, cut: DocumentCut, generalised: Set[AttributeClass]) -> None:
        """`generalised` are the attributes that are slots throughout the type already."""
        self._classes = frozenset(
            token.attribute for token in cut.tokens if token.attribute is not None
        )
        self.slot_attributes: frozenset[AttributeClass] = self._classes & generalised
        self.variants: dict[bytes, Variant] = {}

    def find_variant(self, cut: DocumentCut) -> Variant | None:
        """The variant that the document is of, if it was met before."""
        return self.variants.get(self.variant_key(cut))

    def add_variant(self, cut: DocumentCut) -> Variant:
        """Remember the document's variant."""
        values = array(
            "q",
            (hash(cut.document[token.start : token.end]) for token in self._constant_tokens(cut)),
        )
        variant = self.variants[self.variant_key(cut)] = Variant(values)
        return variant

    def variant_key(self, cut: DocumentCut) -> bytes:
        """What tells the document's variant from others."""
        document = cut.document
        return _digest([document[token.start : token.end] for token in self._constant_tokens(cut)])

    def slot_tokens(self, cut: DocumentCut) -> tuple[Token, ...]:
        """The document's values that are slots."""
        return tuple(
            token
            for token in cut.tokens
            if token.attribute is None or token.attribute in self.slot_attributes
        )

    def generalise(self, generalised: Set[AttributeClass]) -> list[Shape]:
        """Make attributes slots, too, if it has them; the shapes that are then of no use."""
        slots = self.slot_attributes | (self._classes & generalised)
        if slots == self.slot_attributes:
            return []
        self.slot_attributes = slots
        shapes = self.shapes()
        self.variants.clear()
        return shapes

    def shapes(self) -> list[Shape]:
        """The shapes of its variants."""
        return [each.shape for each in self.variants.values() if each.shape is not None]

    def can_generalise(self, generalised: Set[AttributeClass]) -> bool:
        """Whether `adopt` would change anything."""
        return not (self._classes & generalised) <= self.slot_attributes

    def most_varied_attributes(self, cut: DocumentCut) -> frozenset[AttributeClass]:
        """The attributes whose values differ most between the variants; `cut` is of one of them.

        Counted by place and taken by class, so that a class in which each place has one value (as
        the names of parameters) does not count as varied.
        """
        different: dict[AttributeClass, int] = {}
        columns = zip(*(variant.values for variant in self.variants.values()), strict=True)
        for token, column in zip(self._constant_tokens(cut), columns, strict=True):
            if token.attribute is not None:
                known = different.get(token.attribute, 0)
                different[token.attribute] = max(known, len(set(column)))
        most = max(different.values())
        return frozenset(name for name, count in different.items() if count >= _AS_VARIED * most)

    def _constant_tokens(self, cut: DocumentCut) -> list[Token]:
        return [
            token
            for token in cut.tokens
            if token.attribute is not None and token.attribute not in self.slot_attributes
        ]


def skeleton_key(cut: DocumentCut) -> bytes:
    """The same for documents of one skeleton."""
    return _digest(cut.constants_around(cut.tokens))


def _digest(parts: list[bytes]) -> bytes:
    # No document has a NUL.
    return hashlib.blake2b(b"\0".join(parts), digest_size=16).digest()
