"""Recognised events as trees, for queries that no shape decides: filled in, not parsed again."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from broker.event.envelope import Header
from broker.matching.envelope import EnvelopeParts
from broker.matching.examiner import Examiner
from broker.matching.shape.fillable_tree import FillableTree
from broker.matching.shape.shape import Shape
from broker.matching.xpath_evaluation import ParsedEvent

#: Of all shapes whose forms are kept; a node takes about 100 bytes. Beyond it the oldest go.
MAX_NODES = 262_144


class FilledEvent(ParsedEvent):
    """An event in its shape's forms; until they are filled with the next one."""

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
        """See `ParsedEvent`."""
        return self._envelope_tree.fill(self._values)

    def document(self) -> etree._Element:
        """See `ParsedEvent`."""
        return self._document_tree.fill(self._values)


class FillableTreeCache:
    """The forms of shapes with undecided queries: made by a parse of the first such event."""

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner
        self._trees: dict[Shape, tuple[FillableTree, FillableTree]] = {}
        self._nodes = 0

    def fill_event(
        self, shape: Shape, values: Sequence[bytes], header: Header, document: bytes
    ) -> ParsedEvent:
        """A recognised event, with its values and its header; one of a shape at a time."""
        forms = self._trees.get(shape)
        if forms is None:
            subject = self._examiner.parse_recognised(document, header, shape.dtd)
            if shape.node_count > MAX_NODES:
                return subject
            forms = self._add_trees(shape, subject)
        return FilledEvent(header, values, *forms)

    def discard(self, shape: Shape) -> None:
        """Drop a shape's forms, if there are any."""
        if self._trees.pop(shape, None) is not None:
            self._nodes -= shape.node_count

    def _add_trees(self, shape: Shape, subject: ParsedEvent) -> tuple[FillableTree, FillableTree]:
        while self._nodes + shape.node_count > MAX_NODES:
            self.discard(next(iter(self._trees)))
        self._nodes += shape.node_count
        self._trees[shape] = forms = make_fillable_trees(shape, subject)
        return forms


def make_fillable_trees(shape: Shape, subject: ParsedEvent) -> tuple[FillableTree, FillableTree]:
    """The forms of the envelope and of what queries address, made of an event of the shape."""
    envelope = FillableTree(shape.tree.children[0], subject.envelope)
    if shape.payload is None:
        return envelope, envelope
    return envelope, FillableTree(shape.payload.children[0], subject.document())
