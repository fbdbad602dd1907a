"""The shape cache: documents recognised without a parse, and new shapes learnt (DESIGN 6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lxml import etree

from broker.dtd.interfaces import IDtd
from broker.dtd.reference import DtdReference
from broker.errors import BadEnvelope
from broker.matching.envelope import read_envelope
from broker.matching.limits import DocumentLimits
from broker.matching.prolog import PrologReader
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.cutting import Cut
from broker.matching.shape.fields import HeaderReader
from broker.matching.shape.learner import TypeLearner, TypeStatistics
from broker.matching.shape.reasons import NotLearnable, Reason
from broker.matching.shape.shape import Shape
from broker.matching.shape.skeleton import Skeleton

#: Shapes with the document's number of tags that are tried, the latest first. A document whose
#: shape comes later is parsed, and brings its shape to the front.
MAX_TRIES = 16
#: Documents whose lengths differ by a multiple of this are guessed to be of one shape.
LENGTHS = 1024

_BOUNDS = ShapeBounds()


class ShapeCache:
    """The shapes of all types.

    A document that is recognised is what the parser and the DTD would accept: `Shape.dtd` says by
    which DTD it is valid, and it is the caller's to look whether that is still the type's, and to
    `forget` shapes of an older one. Whether the header is right is told by `Shape.header`.
    """

    def __init__(self, limits: DocumentLimits, bounds: ShapeBounds = _BOUNDS) -> None:
        """`limits` hold as they do for the parser."""
        self._bounds = bounds
        self._max_bytes = min(bounds.max_document_bytes, limits.max_bytes)
        self._prologs = PrologReader()
        self._readers = HeaderReader()
        self._types: dict[DtdReference, TypeLearner] = {}
        self._buckets: dict[int, list[Shape]] = {}
        self._weights: dict[Shape, int] = {}
        self._bytes = 0
        self._turn = 0
        self.likely: list[Shape | None] = [None] * LENGTHS
        """By a document's length modulo `LENGTHS`, the shape to try first: the last one met."""
        #: Told of each shape that is dropped, for whatever reason.
        self.on_forgotten: Callable[[Shape], object] = _ignore

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
            values = candidate.values(document)
            if values is not None:
                self._choose(candidate, place)
                self.likely[len(document) % LENGTHS] = candidate
                return candidate, values
        return None

    def use(self, shape: Shape, documents: int) -> None:
        """So many documents of the shape were recognised: one that is used is kept."""
        shape.hits += documents
        self._turn += 1
        shape.used = self._turn

    def learn(
        self, document: bytes, root: etree._Element, reference: DtdReference, dtd: IDtd
    ) -> Shape | None:
        """Learn from an accepted document that was not recognised; its shape if it now has one.

        `root` is its tree, with defaults applied. The tree is not changed.
        """
        kind = self._types.get(reference)
        if kind is None or kind.dtd.content_hash != dtd.content_hash:
            kind = self._new_type(reference, dtd)
        if not kind.is_worth_a_look():
            return None
        try:
            return self._learn(kind, document, root, reference)
        except NotLearnable as refusal:
            kind.not_learnable[refusal.reason.value] += 1
            return None

    def forget(self, shape: Shape) -> None:
        """Drop a shape; does nothing if it was dropped already."""
        weight = self._weights.pop(shape, None)
        if weight is None:
            return
        self._bytes -= weight
        self.likely[:] = [None if each is shape else each for each in self.likely]
        bucket = self._buckets[shape.bucket]
        bucket.remove(shape)
        if not bucket:
            del self._buckets[shape.bucket]
        kind = self._types.get(shape.reference)
        if kind is not None and shape in kind.shapes:
            kind.forgotten(shape)
        # It keeps the 512 expressions that it compiled last, whoever dropped them.
        re.purge()
        self.on_forgotten(shape)

    def forget_type(self, reference: DtdReference) -> None:
        """Drop all that is known of a type, its statistics too."""
        kind = self._types.get(reference)
        if kind is not None:
            for shape in list(kind.shapes):
                self.forget(shape)
            del self._types[reference]

    def statistics(self) -> dict[DtdReference, TypeStatistics]:
        """Of each type that was met."""
        return {reference: kind.statistics() for reference, kind in self._types.items()}

    # ---------------------------------------------------------------- learning

    def _learn(
        self, kind: TypeLearner, document: bytes, root: etree._Element, reference: DtdReference
    ) -> Shape | None:
        if len(document) > self._max_bytes:
            raise NotLearnable(Reason.SIZE)
        prolog = self._prologs.read(document)
        if prolog.extras:
            raise NotLearnable(Reason.MARKUP)
        if not kind.is_familiar(document, prolog.end):
            return None
        parts = read_envelope(root, reference, plain=True)
        learnt = kind.learn(document, prolog.end, root, parts)
        if learnt is None:
            return None
        shape, known = learnt
        values = shape.values(document)
        if values is None:
            self._weigh(shape, shape.prepare(known))
            values = shape.values(document)
        try:
            sound = values == known and shape.header(known) == parts.header
        except BadEnvelope:
            sound = False
        if not sound:
            self.forget(shape)
            raise NotLearnable(Reason.UNVERIFIED)
        self._choose(shape, self._buckets[shape.bucket].index(shape))
        self.use(shape, 0)
        self._make_room(kind, shape)
        return shape

    def _make(self, kind: TypeLearner, pieces: Cut, skeleton: Skeleton) -> Shape:
        slots = skeleton.slots_of(pieces)
        if len(slots) > self._bounds.max_slots:
            raise NotLearnable(Reason.SLOTS)
        shape = Shape(pieces, slots, kind.dtd.reference, kind.dtd, self._readers, self._max_bytes)
        if shape.constant_bytes > self._bounds.max_constant_bytes:
            raise NotLearnable(Reason.CONSTANTS)
        shape.bucket = pieces.document.count(b"<")
        self._buckets.setdefault(shape.bucket, []).append(shape)
        self._weights[shape] = 0
        self._weigh(shape, shape.tree_bytes)
        return shape

    def _new_type(self, reference: DtdReference, dtd: IDtd) -> TypeLearner:
        self.forget_type(reference)
        if len(self._types) >= self._bounds.max_types:
            self.forget_type(next(iter(self._types)))
        kind = TypeLearner(
            dtd,
            self._bounds,
            lambda pieces, skeleton: self._make(kind, pieces, skeleton),
            self.forget,
        )
        self._types[reference] = kind
        return kind

    # ---------------------------------------------------------------- bounds

    def _choose(self, shape: Shape, place: int) -> None:
        if place:
            bucket = self._buckets[shape.bucket]
            del bucket[place]
            bucket.insert(0, shape)

    def _weigh(self, shape: Shape, more: int) -> None:
        self._weights[shape] += more
        self._bytes += more

    def _make_room(self, kind: TypeLearner, newest: Shape) -> None:
        while len(kind.shapes) > self._bounds.max_shapes_of_type:
            self.forget(min(kind.shapes, key=_used))
        while len(self._weights) > self._bounds.max_shapes or (
            self._bytes > self._bounds.max_bytes and len(self._weights) > 1
        ):
            self.forget(min(self._weights, key=_used))


def _used(shape: Shape) -> int:
    return shape.used


def _ignore(_shape: Shape) -> None:
    pass
