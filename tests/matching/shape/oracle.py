"""The oracles for shapes: the parser's tree, and the reference engine's verdict."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from lxml import etree

from broker.dtd.interfaces import IDtd
from broker.errors import BadEnvelope
from broker.matching.contract import NO_VARIANTS, Accepted, Refused, Variants
from broker.matching.document_limits import DocumentLimits
from broker.matching.engine.filled_event import FillableTree, make_fillable_trees
from broker.matching.envelope import read_envelope
from broker.matching.reference_matcher import ReferenceMatcher
from broker.matching.shape.bounds import ShapeBounds
from broker.matching.shape.cache import ShapeCache, recognise_documents
from broker.matching.shape.shape import Shape
from broker.matching.shape.tree import Node, NodeKind
from broker.matching.xpath_evaluation import ParsedEvent
from tests.matching.conftest import KnownDtds

_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
_PREFIX = etree.XPath("name(@*[position() = $n])")


class CheckedCache:
    """A shape cache whose results are compared with the reference engine's."""

    def __init__(
        self,
        *dtds: IDtd,
        bounds: ShapeBounds = ShapeBounds(),  # noqa: B008
        variants: Variants = NO_VARIANTS,
    ) -> None:
        self.cache = ShapeCache(DocumentLimits(), bounds)
        loaded: Any = dtds
        known: Any = KnownDtds(*loaded)
        self.reference = ReferenceMatcher(known, clock=lambda: 0.0)
        self._variants = variants
        self._dtds = {dtd.reference.public_id.encode(): dtd for dtd in dtds}
        self.recognised = self.accepted = 0
        self._fillable_trees: dict[Shape, tuple[FillableTree, FillableTree]] = {}

    def meet(self, document: bytes) -> Shape | None:
        """Recognise a document, or learn from it if it is valid; check both."""
        (verdict,) = self.reference.match([document], variants=self._variants)
        self.accepted += isinstance(verdict, Accepted)
        found = self.recognise(document)
        if found is None:
            return self._learn(document) if isinstance(verdict, Accepted) else None
        shape, values = found
        try:
            header = shape.read_header(values)
        except BadEnvelope as error:
            assert isinstance(verdict, Refused), document
            assert isinstance(verdict.error, BadEnvelope), document
            assert verdict.error.text == error.text
            return None
        assert isinstance(verdict, Accepted), (verdict, document)
        assert header == verdict.header, document
        self.recognised += 1
        check_tree(shape, values, self.parsed(document))
        self._check_fillable_trees(shape, values, document)
        return shape

    def meet_twice(self, document: bytes) -> Shape | None:
        """Meet a document twice, so that it is learnt."""
        self.meet(document)
        return self.meet(document)

    def recognises(self, document: bytes) -> bool:
        """Return True if the document is recognised now."""
        return self.recognise(document) is not None

    def recognise(self, document: bytes) -> tuple[Shape, tuple[bytes, ...]] | None:
        """Return shape and values as the engine finds them for a batch."""
        groups, others = recognise_documents(self.cache, [document], (0,))
        assert others == ([] if groups else [0])
        return (groups[0].shape, groups[0].values[0]) if groups else None

    def parsed(self, document: bytes) -> etree._Element:
        """Return the tree of a valid document with defaults."""
        root = etree.fromstring(document, _PARSER)
        self.dtd_of(document).apply_defaults(root)
        return root

    def dtd_of(self, document: bytes) -> IDtd:
        """Return the DTD of the document's public identifier."""
        return next(dtd for name, dtd in self._dtds.items() if name in document)

    def _check_fillable_trees(self, shape: Shape, values: Sequence[bytes], document: bytes) -> None:
        """Compare the trees of the shape's first document, filled with values, with this
        document's."""
        root = self.parsed(document)
        parsed = ParsedEvent(root, read_envelope(root, shape.reference))
        if shape not in self._fillable_trees:
            first = self.parsed(document)
            parts = read_envelope(first, shape.reference, shape.validation)
            self._fillable_trees[shape] = make_fillable_trees(shape, ParsedEvent(first, parts))
        found = [form.fill(values) for form in self._fillable_trees[shape]]
        docinfos: list[Any] = [each.getroottree().docinfo for each in (found[0], root)]
        assert docinfos[0].doctype == docinfos[1].doctype
        for filled, expected in zip(found, (root, parsed.document()), strict=True):
            assert etree.tostring(filled) == etree.tostring(expected), document
            assert of_lxml(filled) == of_lxml(expected), document

    def _learn(self, document: bytes) -> Shape | None:
        dtd, root = self.dtd_of(document), self.parsed(document)
        before = etree.tostring(root)
        shape = self.cache.learn(document, root, dtd)
        assert etree.tostring(root) == before
        if shape is not None:
            values = shape.extract_values(document)
            assert values is not None
            check_tree(shape, values, root)
        return shape


def check_tree(shape: Shape, values: Sequence[bytes], root: etree._Element) -> None:
    """Compare the shape's trees, filled with values, with the parser's."""
    assert len(values) == shape.slot_count
    assert of_shape(shape.tree, values) == ("", None, [], [of_lxml(root)])
    check_orders(shape.tree)
    payload = read_envelope(root, shape.reference).payload
    if payload is None:
        assert shape.payload is None
        return
    assert shape.payload is not None
    alone = copy.deepcopy(payload)
    alone.tail = None
    assert of_shape(shape.payload, values) == ("", None, [], [of_lxml(alone)])
    check_orders(shape.payload)


def of_shape(node: Node, values: Sequence[bytes]) -> Any:
    """Return a node of a shape's tree as plain data with filled slots."""
    if node.kind is NodeKind.TEXT:
        return _value(node, values)
    name = f"{{{node.namespace}}}{node.local}" if node.namespace else node.local
    attributes = [
        (
            f"{{{each.namespace}}}{each.local}" if each.namespace else each.local,
            each.prefix,
            _value(each, values),
        )
        for each in node.attributes
    ]
    return (name, node.prefix, attributes, [of_shape(each, values) for each in node.children])


def of_lxml(element: etree._Element) -> Any:
    """Return an element as plain data."""
    attributes = []
    for place, (name, value) in enumerate(element.items(), 1):
        prefix, colon, _ = str(_PREFIX(element, n=place)).partition(":")
        attributes.append((name, prefix if colon else None, value))
    children: list[Any] = [element.text] if element.text else []
    for child in element:
        children.append(of_lxml(child))
        if child.tail:
            children.append(child.tail)
    return (str(element.tag), element.prefix, attributes, children)


def check_orders(root: Node) -> None:
    """Check that orders rise without gaps, and that `last` and `parent` are correct."""
    seen = []

    def walk(node: Node) -> int:
        seen.append(node.order)
        last = node.order
        for below in (*node.attributes, *node.children):
            assert below.parent is node
            last = walk(below)
        assert node.last == last
        return last

    walk(root)
    assert seen == list(range(len(seen)))


def _value(node: Node, values: Sequence[bytes]) -> str:
    return (values[node.value] if isinstance(node.value, int) else node.value).decode()
