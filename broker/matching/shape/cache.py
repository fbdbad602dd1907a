"""The shape cache: recognises documents without a parse, and learns new shapes (DESIGN 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter

import attrs
from lxml import etree

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope
from broker.event.envelope import Validation
from broker.matching.document_limits import DocumentLimits
from broker.matching.envelope import read_envelope
from broker.matching.prolog import PrologReader
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.document_cut import DocumentCut, NotLearnable, Reason
from broker.matching.shape.header_fields import HeaderReaderFactory
from broker.matching.shape.shape import Shape
from broker.matching.shape.skeleton import Skeleton
from broker.matching.shape.type_learner import TypeLearner
from broker.matching.undescribed import is_undescribed

#: Maximum number of shapes with the document's tag count that are tried, latest first. A document
#: of a later shape is parsed, which moves its shape to the front.
MAX_TRIES = 16
#: Documents whose lengths are equal modulo this number are first compared with one shape.
LENGTH_CLASSES = 1024

_BOUNDS = ShapeBounds()


class ShapeCache:
    """The shapes of all types.

    The parser and the DTD `Shape.dtd` would accept a recognised document. The caller must check
    that it is the text that validates this document.
    """

    def __init__(self, limits: DocumentLimits, bounds: ShapeBounds = _BOUNDS) -> None:
        self._bounds = bounds
        self._max_bytes = min(bounds.max_document_bytes, limits.max_bytes)
        self._prologs = PrologReader()
        self._readers = HeaderReaderFactory()
        self.types: dict[DtdReference, TypeLearner] = {}
        """By the text that validates the events."""
        self._buckets: dict[int, list[Shape]] = {}
        self._weights: dict[Shape, int] = {}
        self._bytes = 0
        self._uses = 0
        self.likely_shapes: list[Shape | None] = [None] * LENGTH_CLASSES
        """The last shape met, by document length modulo `LENGTH_CLASSES`. It is tried first."""
        #: Called with each dropped shape.
        self.on_dropped: Callable[[Shape], object] = lambda _: None

    def __len__(self) -> int:
        return len(self._weights)

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._weights)

    @property
    def bytes_held(self) -> int:
        return self._bytes

    def recognise(
        self, document: bytes, tried: Shape | None = None
    ) -> tuple[Shape, tuple[bytes, ...]] | None:
        """Return the shape of the document and its slot values; None if it must be parsed.

        Skips the shape `tried`, which the caller has compared.
        """
        if not self._buckets or len(document) > self._max_bytes:
            return None
        bucket = self._buckets.get(document.count(b"<"), ())
        for position, candidate in enumerate(bucket[:MAX_TRIES]):
            if candidate is tried:
                continue
            values = candidate.extract_values(document)
            if values is not None:
                self._move_to_front(candidate, position)
                self.likely_shapes[len(document) % LENGTH_CLASSES] = candidate
                return candidate, values
        return None

    def record_use(self, shape: Shape, documents: int) -> None:
        shape.hits += documents
        self._uses += 1
        shape.last_used = self._uses

    def learn(self, document: bytes, root: etree._Element, dtd: IDtd) -> Shape | None:
        """Learn from an accepted document without a shape; return its shape if it has one now.

        `root` is its tree with defaults applied.
        """
        if dtd.schema is not None and not dtd.schema.has_slot_types:
            return None
        learner = self.types.get(dtd.reference)
        if learner is None or learner.dtd.content_hash != dtd.content_hash:
            learner = self._new_type(dtd)
        if not learner.should_learn():
            return None
        try:
            return self._learn_shape(learner, document, root)
        except NotLearnable as refusal:
            learner.not_learnable[refusal.reason.value] += 1
            return None

    def drop_shape(self, shape: Shape) -> None:
        """Drop a shape, unless it was dropped already."""
        weight = self._weights.pop(shape, None)
        if weight is None:
            return
        self._bytes -= weight
        self.likely_shapes[:] = [
            None if shape_or_none is shape else shape_or_none
            for shape_or_none in self.likely_shapes
        ]
        bucket = self._buckets[shape.tag_count]
        bucket.remove(shape)
        if not bucket:
            del self._buckets[shape.tag_count]
        learner = self.types.get(shape.dtd.reference)
        if learner is not None and shape in learner.shapes:
            learner.remove_shape(shape)
        # The module `re` caches the last 512 expressions.
        re.purge()
        self.on_dropped(shape)

    def drop_type(self, reference: DtdReference) -> None:
        learner = self.types.get(reference)
        if learner is not None:
            for shape in list(learner.shapes):
                self.drop_shape(shape)
            del self.types[reference]

    # ---------------------------------------------------------------- learning

    def _learn_shape(
        self, learner: TypeLearner, document: bytes, root: etree._Element
    ) -> Shape | None:
        if len(document) > self._max_bytes:
            raise NotLearnable(Reason.SIZE)
        if document.count(b"<") > self._bounds.max_tags:
            raise NotLearnable(Reason.TAGS)
        prolog = self._prologs.read(document)
        if prolog.extras:
            raise NotLearnable(Reason.MARKUP)
        if not learner.was_seen(document, prolog.end):
            return None
        dtd = learner.dtd
        validation = Validation.UNDESCRIBED if is_undescribed(dtd) else Validation.DESCRIBED
        parts = read_envelope(root, dtd.reference, validation)
        learnt = learner.learn_document(document, prolog.end, root, parts)
        if learnt is None:
            return None
        shape, parser_values = learnt
        values = shape.extract_values(document)
        if values is None:
            most = self._bounds.max_slots_compiled
            self._add_weight(shape, shape.compile_expression(parser_values, most))
            if not shape.is_compiled_for(parser_values):
                self._make_room(learner, shape)
                return None
            values = shape.extract_values(document)
        try:
            is_correct = (
                values == parser_values and shape.read_header(parser_values) == parts.header
            )
        except BadEnvelope:
            is_correct = False
        if not is_correct:
            self.drop_shape(shape)
            raise NotLearnable(Reason.UNVERIFIED)
        self._move_to_front(shape, self._buckets[shape.tag_count].index(shape))
        self.record_use(shape, 0)
        self._make_room(learner, shape)
        return shape

    def _make_shape(self, learner: TypeLearner, pieces: DocumentCut, skeleton: Skeleton) -> Shape:
        slots = skeleton.slot_tokens(pieces)
        if len(slots) > self._bounds.max_slots:
            raise NotLearnable(Reason.SLOTS)
        shape = Shape(pieces, slots, learner.dtd, self._readers, self._max_bytes)
        if shape.constant_bytes > self._bounds.max_constant_bytes:
            raise NotLearnable(Reason.CONSTANTS)
        shape.tag_count = pieces.document.count(b"<")
        self._buckets.setdefault(shape.tag_count, []).append(shape)
        self._weights[shape] = 0
        self._add_weight(shape, shape.tree_bytes)
        return shape

    def _new_type(self, dtd: IDtd) -> TypeLearner:
        self.drop_type(dtd.reference)
        if len(self.types) >= self._bounds.max_types:
            self.drop_type(next(iter(self.types)))
        learner = TypeLearner(
            dtd,
            self._bounds,
            lambda pieces, skeleton: self._make_shape(learner, pieces, skeleton),
            self.drop_shape,
        )
        self.types[dtd.reference] = learner
        return learner

    # ---------------------------------------------------------------- bounds

    def _move_to_front(self, shape: Shape, position: int) -> None:
        if position:
            bucket = self._buckets[shape.tag_count]
            del bucket[position]
            bucket.insert(0, shape)

    def _add_weight(self, shape: Shape, additional: int) -> None:
        self._weights[shape] += additional
        self._bytes += additional

    def _make_room(self, learner: TypeLearner, newest: Shape) -> None:
        while len(learner.shapes) > self._bounds.max_shapes_of_type:
            self.drop_shape(min(learner.shapes, key=_last_used))
        while len(self._weights) > self._bounds.max_shapes or (
            self._bytes > self._bounds.max_bytes and len(self._weights) > 1
        ):
            self.drop_shape(min(self._weights, key=_last_used))


_last_used = attrgetter("last_used")


@attrs.define(eq=False)
class RecognisedGroup:
    """Documents of one shape: their indexes in the batch, ascending, and their slot values."""

    shape: Shape
    places: list[int] = attrs.field(factory=list)
    values: list[tuple[bytes, ...]] = attrs.field(factory=list)


def recognise_documents(
    shapes: ShapeCache, documents: Sequence[bytes], indexes: Iterable[int]
) -> tuple[list[RecognisedGroup], list[int]]:
    """Group the documents at `indexes` (ascending) by shape; return the other indexes too."""
    groups: dict[Shape, RecognisedGroup] = {}
    others: list[int] = []
    likely = shapes.likely_shapes
    for index in indexes:
        document = documents[index]
        # Documents of equal length usually have one shape, so one comparison is enough.
        shape = likely[len(document) % LENGTH_CLASSES]
        values = None if shape is None else shape.extract_values(document)
        if shape is None or values is None:
            result = shapes.recognise(document, shape)
            if result is None:
                others.append(index)
                continue
            shape, values = result
        group = groups.get(shape)
        if group is None:
            group = groups[shape] = RecognisedGroup(shape)
        group.places.append(index)
        group.values.append(values)
    for group in groups.values():
        shapes.record_use(group.shape, len(group.places))
    return list(groups.values()), others
