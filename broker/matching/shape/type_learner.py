"""Learning of one type's shapes: which documents get one, and when learning pauses.

At first sight a document leaves a signature. At second sight, or if nearly all documents are
recognised, it is cut and its skeleton learnt. Learning costs about as much as a hundred
recognitions save, so a type has a *credit*. A type with hardly any of them is *suspended*.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property

from lxml import etree

from broker.dtd.interfaces import IDtd
from broker.dtd.xsd.slot_types import SlotTypes
from broker.matching.envelope import EnvelopeParts
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.document_cut import (
    AttributeClass,
    DocumentCut,
    DocumentCutter,
    EligibleValues,
    NotLearnable,
    Reason,
    UndescribedValues,
)
from broker.matching.shape.shape import Shape
from broker.matching.shape.skeleton import Skeleton, Variant, skeleton_key
from broker.matching.undescribed import is_undescribed

_NOT_MARKUP = bytes(set(range(256)) - set(b'<>"'))
_ENCODING = re.compile(
    rb"(?:\xef\xbb\xbf)?<\?xml[^>]*?encoding[ \t\n]*=[ \t\n]*[\"']([^\"']*)[\"']"
)
#: Unrecognised documents between two updates of the credit.
_CREDIT_INTERVAL = 32


class TypeLearner:
    """Decides which shapes of one type are learnt. The cache holds the shapes."""

    def __init__(
        self,
        dtd: IDtd,
        bounds: ShapeBounds,
        make_shape: Callable[[DocumentCut, Skeleton], Shape],
        drop_shape: Callable[[Shape], None],
    ) -> None:
        """`make_shape` returns a shape with the skeleton's slots, `drop_shape` drops one."""
        self.dtd = dtd
        self.shapes: dict[Shape, tuple[Skeleton, Variant]] = {}
        self.not_learnable: Counter[str] = Counter()
        """Documents without a shape, by `Reason`."""
        self._bounds = bounds
        self._make_shape = make_shape
        self._drop_shape = drop_shape
        self._signatures: set[int] = set()
        self._too_large: set[int] = set()
        self._skeletons: dict[bytes, Skeleton] = {}
        self.slot_attributes: set[AttributeClass] = set()
        self.misses = self.learnt = self.forgotten = self.suspensions = 0
        self._hits_of_forgotten = 0
        self._pause = bounds.pause
        self._suspended_for = 0
        self._window_ends = bounds.window
        self._hits_before = 0
        self._credit, self._credit_from = bounds.credit, 0

    @cached_property
    def _eligible(self) -> EligibleValues:
        return (UndescribedValues if is_undescribed(self.dtd) else EligibleValues)(self.dtd)

    @property
    def _slot_types(self) -> SlotTypes | None:
        """Those of the type's schema, if it has one."""
        return None if self.dtd.schema is None else self.dtd.schema.slot_types or SlotTypes()

    @property
    def hits(self) -> int:
        return self._hits_of_forgotten + sum(shape.hits for shape in self.shapes)

    @property
    def is_suspended(self) -> bool:
        """True while its documents are parsed, since its shapes do not recur."""
        return self._suspended_for > 0

    # ---------------------------------------------------------------- shapes

    def was_seen(self, document: bytes, start: int) -> bool:
        """Return True if a similar document was met before, and store the signature.

        Raises `NotLearnable` for reasons that need no cut.
        """
        signature = _signature(document, start)
        if signature in self._too_large:
            raise NotLearnable(Reason.CONSTANTS)
        if signature in self._signatures:
            if self._credit <= 0:
                raise NotLearnable(Reason.CREDIT)
            return True
        _add_signature(self._signatures, signature, self._bounds.max_signatures)
        return self._credit > 0 and self._is_mostly_recognised

    @property
    def _is_mostly_recognised(self) -> bool:
        return self.hits >= self._bounds.hits_per_miss * self.misses

    def learn_document(
        self, document: bytes, start: int, root: etree._Element, parts: EnvelopeParts
    ) -> tuple[Shape, tuple[bytes, ...]] | None:
        """Return the shape of a document that was not recognised, and the parser's values, or None.

        The shape may be known, but not compiled for such values. Raises `NotLearnable`.
        """
        try:
            most, types = self._bounds.max_constant_bytes, self._slot_types
            cutter = DocumentCutter(document, root, parts.payload, self._eligible, most, types)
            return self._learn_cut(cutter.cut(start))
        except NotLearnable as refusal:
            if refusal.reason in (Reason.CONSTANTS, Reason.SLOTS):
                _add_signature(
                    self._too_large, _signature(document, start), self._bounds.max_signatures
                )
            raise

    def remove_shape(self, shape: Shape) -> None:
        skeleton, variant = self.shapes.pop(shape)
        self._hits_of_forgotten += shape.hits
        self.forgotten += 1
        variant.shape = None
        for key in [key for key, each in skeleton.variants.items() if each is variant]:
            del skeleton.variants[key]

    def _learn_cut(self, cut: DocumentCut) -> tuple[Shape, tuple[bytes, ...]] | None:
        skeleton, is_new = self._get_skeleton(cut)
        variant = skeleton.find_variant(cut)
        if variant is None:
            if skeleton.can_generalise(self.slot_attributes):
                # Its attributes vary, and the type's varying attributes are known.
                self._drop_shapes(skeleton.generalise(self.slot_attributes))
                is_new = True
            elif len(skeleton.variants) >= self._bounds.max_variants:
                skeleton.add_variant(cut)
                attributes = skeleton.most_varied_attributes(cut)
                self.slot_attributes |= attributes
                self._drop_shapes(skeleton.generalise(attributes))
                is_new = True
            variant = skeleton.add_variant(cut)
            if not (is_new or self._is_mostly_recognised):
                return None
        if variant.shape is None:
            shape = self._make_shape(cut, skeleton)
            variant.shape = shape
            self.shapes[shape] = (skeleton, variant)
            self.learnt += 1
            self._credit -= 1
        return variant.shape, cut.values_of(skeleton.slot_tokens(cut))

    def _get_skeleton(self, cut: DocumentCut) -> tuple[Skeleton, bool]:
        key = skeleton_key(cut)
        known = self._skeletons.pop(key, None)
        if known is not None:
            # Reinserted at the end: the first skeleton is the least recently met.
            self._skeletons[key] = known
            return known, False
        if len(self._skeletons) >= 2 * self._bounds.max_shapes_of_type:
            # At most half of the skeletons have a shape.
            del self._skeletons[
                next(key for key, each in self._skeletons.items() if not each.shapes())
            ]
        skeleton = self._skeletons[key] = Skeleton(cut, self.slot_attributes)
        return skeleton, True

    def _drop_shapes(self, shapes: list[Shape]) -> None:
        for shape in shapes:
            self._drop_shape(shape)

    # ---------------------------------------------------------------- whether it pays

    def should_learn(self) -> bool:
        """Count an unrecognised document; return False while the type is suspended."""
        self.misses += 1
        if self._suspended_for:
            self._suspended_for -= 1
            if not self._suspended_for:
                self._window_ends = self.misses + self._bounds.window
                self._hits_before = self.hits
            return False
        if self.misses % _CREDIT_INTERVAL == 0:
            self._add_credit()
        if self.misses >= self._window_ends:
            return not self._suspend_if_unrecognised()
        return True

    def _suspend_if_unrecognised(self) -> bool:
        bounds, hits = self._bounds, self.hits
        self._window_ends = self.misses + bounds.window
        recognised, self._hits_before = hits - self._hits_before, hits
        if recognised >= bounds.min_hit_rate * (recognised + bounds.window):
            self._pause = bounds.pause
            return False
        self._drop_shapes(list(self.shapes))
        self._skeletons.clear()
        self._signatures.clear()
        self._too_large.clear()
        self._suspended_for = self._pause
        self.suspensions += 1
        self._pause = min(2 * self._pause, bounds.max_pause)
        self._credit = bounds.credit // 4
        return True

    def _add_credit(self) -> None:
        earned = (self.hits - self._credit_from) // self._bounds.hits_per_credit
        self._credit_from += earned * self._bounds.hits_per_credit
        self._credit = min(self._credit + earned, self._bounds.credit)


def _signature(document: bytes, start: int) -> int:
    """Return a hash of the markup signs. Raises `NotLearnable` for visible reasons."""
    if document.find(b"&") >= 0 or document.find(b"\r") >= 0:
        raise NotLearnable(Reason.MARKUP)
    if document.find(b"<!", start) >= 0 or document.find(b"<?", start) >= 0:
        raise NotLearnable(Reason.MARKUP)
    encoding = _ENCODING.match(document, 0, start)
    if encoding is not None and encoding[1].lower() != b"utf-8":
        raise NotLearnable(Reason.ENCODING)
    return hash(document.translate(None, _NOT_MARKUP))


def _add_signature(known: set[int], signature: int, limit: int) -> None:
    if len(known) >= limit:
        known.clear()
    known.add(signature)
