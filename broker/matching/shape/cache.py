"""The shape cache: documents recognised without a parse, and new shapes learnt (DESIGN 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lxml import etree

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope
from broker.matching.document_limits import DocumentLimits
from broker.matching.envelope import read_envelope
from broker.matching.prolog import PrologReader
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.document_cut import DocumentCut
from broker.matching.shape.header_fields import HeaderReaderFactory
from broker.matching.shape.reason import NotLearnable, Reason
from broker.matching.shape.shape import Shape
from broker.matching.shape.skeleton import Skeleton
from broker.matching.shape.type_learner import TypeLearner, TypeStatistics

#: Shapes with the document's number of tags that are tried, the latest first. A document whose
#: shape comes later is parsed, and brings its shape to the front.
MAX_TRIES = 16
#: Documents whose lengths differ by a multiple of this are guessed to be of one shape.
LENGTH_CLASSES = 1024

_BOUNDS = ShapeBounds()


class ShapeCache:
    """The shapes of all types.

    A document that is recognised is what the parser and the DTD would accept: `Shape.dtd` says by
    which DTD it is valid, and it is the caller's to look whether that is still the type's, and to
    `forget` shapes of an older one. Whether the header is right is told by `Shape.read_header`.
    """

    def __init__(self, limits: DocumentLimits, bounds: ShapeBounds = _BOUNDS) -> None:
        """`limits` hold as they do for the parser."""
        self._bounds = bounds
        self._max_bytes = min(bounds.max_document_bytes, limits.max_bytes)
        self._prologs = PrologReader()
        self._readers = HeaderReaderFactory()
        self._types: dict[DtdReference, TypeLearner] = {}
        self._buckets: dict[int, list[Shape]] = {}
        self._weights: dict[Shape, int] = {}
        self._bytes = 0
        self._uses = 0
        self.likely_shapes: list[Shape | None] = [None] * LENGTH_CLASSES
        """By a document's length modulo `LENGTHS`, the shape to try first: the last one met."""
        #: Told of each shape that is dropped, for whatever reason.
        self.on_dropped: Callable[[Shape], object] = _ignore

    def __len__(self) -> int:
        return len(self._weights)

    def __iter__(self) -> Iterator[Shape]:
        """All of them; forget none meanwhile."""
        return iter(self._weights)

    @property
    def bytes_held(self) -> int:
        """Memory that the shapes take, about."""
        return self._bytes

    def recognise(
        self, document: bytes, tried: Shape | None = None
    ) -> tuple[Shape, tuple[bytes, ...]] | None:
        """The shape of the document and the values of its slots, None if it must be parsed.

        It is not of the shape `tried`: the caller has looked. See `recognised` for whole batches.
        """
        if not self._buckets or len(document) > self._max_bytes:
            return None
        bucket = self._buckets.get(document.count(b"<"), ())
        for place, candidate in enumerate(bucket[:MAX_TRIES]):
            if candidate is tried:
                continue
            values = candidate.extract_values(document)
            if values is not None:
                self._move_to_front(candidate, place)
                self.likely_shapes[len(document) % LENGTH_CLASSES] = candidate
                return candidate, values
        return None

    def record_use(self, shape: Shape, documents: int) -> None:
        """So many documents of the shape were recognised: one that is used is kept."""
        shape.hits += documents
        self._uses += 1
        shape.last_used = self._uses

    def learn(
        self, document: bytes, root: etree._Element, reference: DtdReference, dtd: IDtd
    ) -> Shape | None:
        """Learn from an accepted document that was not recognised; its shape if it now has one.

        `root` is its tree, with defaults applied. The tree is not changed.
        """
        kind = self._types.get(reference)
        if kind is None or kind.dtd.content_hash != dtd.content_hash:
            kind = self._new_type(reference, dtd)
        if not kind.should_learn():
            return None
        try:
            return self._learn_shape(kind, document, root, reference)
        except NotLearnable as refusal:
            kind.not_learnable[refusal.reason.value] += 1
            return None

    def drop_shape(self, shape: Shape) -> None:
        """Drop a shape; does nothing if it was dropped already."""
        weight = self._weights.pop(shape, None)
        if weight is None:
            return
        self._bytes -= weight
        self.likely_shapes[:] = [None if each is shape else each for each in self.likely_shapes]
        bucket = self._buckets[shape.tag_count]
        bucket.remove(shape)
        if not bucket:
            del self._buckets[shape.tag_count]
        kind = self._types.get(shape.reference)
        if kind is not None and shape in kind.shapes:
            kind.remove_shape(shape)
        # It keeps the 512 expressions that it compiled last, whoever dropped them.
        re.purge()
        self.on_dropped(shape)

    def drop_type(self, reference: DtdReference) -> None:
        """Drop all that is known of a type, its statistics too."""
        kind = self._types.get(reference)
        if kind is not None:
            for shape in list(kind.shapes):
                self.drop_shape(shape)
            del self._types[reference]

    def statistics(self) -> dict[DtdReference, TypeStatistics]:
        """Of each type that was met."""
        return {reference: kind.statistics() for reference, kind in self._types.items()}

    # ---------------------------------------------------------------- learning

    def _learn_shape(
        self, kind: TypeLearner, document: bytes, root: etree._Element, reference: DtdReference
    ) -> Shape | None:
        if len(document) > self._max_bytes:
            raise NotLearnable(Reason.SIZE)
        prolog = self._prologs.read(document)
        if prolog.extras:
            raise NotLearnable(Reason.MARKUP)
        if not kind.was_seen(document, prolog.end):
            return None
        parts = read_envelope(root, reference, plain=True)
        learnt = kind.learn_document(document, prolog.end, root, parts)
        if learnt is None:
            return None
        shape, known = learnt
        values = shape.extract_values(document)
        if values is None:
            self._add_weight(shape, shape.compile_expression(known))
            values = shape.extract_values(document)
        try:
            sound = values == known and shape.read_header(known) == parts.header
        except BadEnvelope:
            sound = False
        if not sound:
            self.drop_shape(shape)
            raise NotLearnable(Reason.UNVERIFIED)
        self._move_to_front(shape, self._buckets[shape.tag_count].index(shape))
        self.record_use(shape, 0)
        self._make_room(kind, shape)
        return shape

    def _make_shape(self, kind: TypeLearner, pieces: DocumentCut, skeleton: Skeleton) -> Shape:
        slots = skeleton.slot_tokens(pieces)
        if len(slots) > self._bounds.max_slots:
            raise NotLearnable(Reason.SLOTS)
        shape = Shape(pieces, slots, kind.dtd.reference, kind.dtd, self._readers, self._max_bytes)
        if shape.constant_bytes > self._bounds.max_constant_bytes:
            raise NotLearnable(Reason.CONSTANTS)
        shape.tag_count = pieces.document.count(b"<")
        self._buckets.setdefault(shape.tag_count, []).append(shape)
        self._weights[shape] = 0
        self._add_weight(shape, shape.tree_bytes)
        return shape

    def _new_type(self, reference: DtdReference, dtd: IDtd) -> TypeLearner:
        self.drop_type(reference)
        if len(self._types) >= self._bounds.max_types:
            self.drop_type(next(iter(self._types)))
        kind = TypeLearner(
            dtd,
            self._bounds,
            lambda pieces, skeleton: self._make_shape(kind, pieces, skeleton),
            self.drop_shape,
        )
        self._types[reference] = kind
        return kind

    # ---------------------------------------------------------------- bounds

    def _move_to_front(self, shape: Shape, place: int) -> None:
        if place:
            bucket = self._buckets[shape.tag_count]
            del bucket[place]
            bucket.insert(0, shape)

    def _add_weight(self, shape: Shape, more: int) -> None:
        self._weights[shape] += more
        self._bytes += more

    def _make_room(self, kind: TypeLearner, newest: Shape) -> None:
        while len(kind.shapes) > self._bounds.max_shapes_of_type:
            self.drop_shape(min(kind.shapes, key=_last_used))
        while len(self._weights) > self._bounds.max_shapes or (
            self._bytes > self._bounds.max_bytes and len(self._weights) > 1
        ):
            self.drop_shape(min(self._weights, key=_last_used))


def _last_used(shape: Shape) -> int:
    return shape.last_used


def _ignore(_shape: Shape) -> None:
    pass
