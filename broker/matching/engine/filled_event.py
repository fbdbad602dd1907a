"""Trees of recognised events for lxml, filled with values instead of parsed."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from broker.event.envelope import Header
from broker.matching.envelope import EnvelopeParts
from broker.matching.examiner import Examiner
from broker.matching.shape.fillable_tree import FillableTree
from broker.matching.shape.shape import Shape
from broker.matching.xpath_evaluation import ParsedEvent

#: Maximum number of nodes of all stored trees, of about 100 bytes each. Beyond it the oldest trees
#: are dropped.
MAX_NODES = 262_144


class FilledEvent(ParsedEvent):
    """A recognised event in its shape's trees. It is valid until they are filled again."""

    __slots__ = ("_envelope_tree", "_document_tree", "_values")

    def __init__(
        self,
        header: Header,
        values: Sequence[bytes],
        envelope: FillableTree,
        document: FillableTree,
    ) -> None:
        super().__init__(envelope.root, EnvelopeParts(header, None))
        self._envelope_tree = envelope
        self._document_tree = document
        self._values = values

    @property
    def envelope(self) -> etree._Element:
        return self._envelope_tree.fill(self._values)

    def document(self) -> etree._Element:
        return self._document_tree.fill(self._values)


class FillableTreeCache:
    """Fillable trees of shapes with undecided queries, made from the first such event."""

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner
        self._trees: dict[Shape, tuple[FillableTree, FillableTree]] = {}
        self._nodes = 0

    def fill_event(
        self, shape: Shape, values: Sequence[bytes], header: Header, document: bytes
    ) -> ParsedEvent:
        """Return a recognised event. It is valid until the next call for this shape."""
        trees = self._trees.get(shape)
        if trees is None:
            event = self._examiner.parse_recognised(document, header, shape.dtd)
            if shape.node_count > MAX_NODES:
                return event
            trees = self._add_trees(shape, event)
        return FilledEvent(header, values, *trees)

    def discard(self, shape: Shape) -> None:
        if self._trees.pop(shape, None) is not None:
            self._nodes -= shape.node_count

    def _add_trees(self, shape: Shape, event: ParsedEvent) -> tuple[FillableTree, FillableTree]:
        while self._nodes + shape.node_count > MAX_NODES:
            self.discard(next(iter(self._trees)))
        self._nodes += shape.node_count
        self._trees[shape] = trees = make_fillable_trees(shape, event)
        return trees


def make_fillable_trees(shape: Shape, event: ParsedEvent) -> tuple[FillableTree, FillableTree]:
    """Return the fillable trees of the envelope and of the queried document, from one event."""
    envelope = FillableTree(shape.tree.children[0], event.envelope)
    if shape.payload is None:
        return envelope, envelope
    return envelope, FillableTree(shape.payload.children[0], event.document())
