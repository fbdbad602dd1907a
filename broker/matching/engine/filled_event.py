"""Trees of recognised events for lxml, filled with values instead of parsed."""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree

from broker.event.envelope import Header
from broker.matching.envelope import EnvelopeParts
from broker.matching.examiner import Examiner
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Node, NodeKind
from broker.matching.xpath_evaluation import ParsedEvent


class FillableTree:
    """A parsed tree with replaceable slot values, for one document at a time."""

    __slots__ = ("_attributes", "_values", "_texts", "root")

    def __init__(self, node: Node, root: etree._Element) -> None:
        """`node` is the shape's node of `root`, which the object takes over."""
        self.root = root
        self._values: Sequence[bytes] = ()
        self._texts: list[tuple[int, etree._Element]] = []
        self._attributes: list[tuple[int, etree._Element, str]] = []
        self._find_slots(node, root)

    def fill(self, values: Sequence[bytes]) -> etree._Element:
        """Return the root with these values, valid until the next call."""
        if self._values is not values:
            for slot, element in self._texts:
                element.text = values[slot].decode()
            for slot, element, name in self._attributes:
                element.set(name, values[slot].decode())
            self._values = values
        return self.root

    def _find_slots(self, node: Node, element: etree._Element) -> None:
        for attribute in node.attributes:
            if isinstance(attribute.value, int):
                self._attributes.append((attribute.value, element, _name(attribute)))
        children = iter(element)
        for child in node.children:
            if child.kind is NodeKind.ELEMENT:
                self._find_slots(child, next(children))
            elif isinstance(child.value, int):
                # A text slot is the only content of its element.
                self._texts.append((child.value, element))


def _name(attribute: Node) -> str:
    if attribute.namespace is None:
        return attribute.local
    return f"{{{attribute.namespace}}}{attribute.local}"


#: Maximum number of nodes of all stored trees, of about 100 bytes each. Beyond it the oldest trees
#: are dropped.
MAX_NODES = 262_144


class FilledEvent(ParsedEvent):
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
    """Trees of shapes with undecided queries, made from the first such event."""

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner
        self._trees: dict[Shape, tuple[FillableTree, FillableTree]] = {}
        self._nodes = 0

    def fill_event(
        self, shape: Shape, values: Sequence[bytes], header: Header, document: bytes
    ) -> ParsedEvent:
        """Return an event that is valid until the next call for this shape."""
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
    """Return the trees of the envelope and of the queried document, from one event."""
    envelope = FillableTree(shape.tree.children[0], event.envelope)
    if shape.payload is None:
        return envelope, envelope
    return envelope, FillableTree(shape.payload.children[0], event.document())
