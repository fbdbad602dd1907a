"""A valid document cut into constants and values, with its tree, verified against the parser's.

The expression for tags is exact without the markup that `Reason` lists.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import TypeAlias

import attrs
from lxml import etree

from broker.dtd.declaration import DeclaredAttribute
from broker.dtd.interfaces import IDtd
from broker.dtd.tokenised import normalise_tokens
from broker.dtd.xsd.slot_check import IsValid, SlotCheck, compile_check
from broker.dtd.xsd.slot_types import SlotTypes, SlotWalker
from broker.event.envelope import ENVELOPE_PREFIX, NAMESPACE, XML_NAMESPACE
from broker.matching.shape.document_template import SLOT_TEXT, SLOT_VALUE
from broker.matching.shape.tree import Node, NodeKind

#: Element and attribute, by the names in the DTD.
AttributeClass: TypeAlias = tuple[str, str]

#: Its text must be the DOCTYPE's version, so it never varies.
_VERSION_NUM = f"{{{NAMESPACE}}}VersionNum"
#: The envelope's only element with attributes of its own.
_EVENT_TYPE = f"{ENVELOPE_PREFIX}:EventType"


class EligibleValues:
    """The texts and attributes of a type for which the DTD allows any value.

    Names are those of the DTD. Only the declaration of the same name counts: libxml2 validates
    `x:a` by that of `a` too.
    """

    def __init__(self, dtd: IDtd) -> None:
        self.names_of_dtd = dtd.declared_names
        self.texts = frozenset(
            name for name, element in dtd.elements.items() if element.type in ("mixed", "any")
        )
        self.attributes: frozenset[AttributeClass] = frozenset(
            (name, attribute.qualified_name)
            for name, element in dtd.elements.items()
            for attribute in element.attributes
            if _allows_any_value(attribute)
        )
        self.names = dtd.names
        self.tokenised = dtd.tokenised_attributes

    def is_declared(self, name: str) -> bool:
        return name in self.names

    def is_eligible_attribute(self, element: str, attribute: str) -> bool:
        return (element, attribute) in self.attributes

    def is_eligible_text(self, name: str, tag: str) -> bool:
        """Return True if a leaf with this name and lxml tag may have any text."""
        return name in self.texts and tag != _VERSION_NUM


class UndescribedValues(EligibleValues):
    """Those of a type without a DTD: all but those of the envelope that are not any text."""

    def is_declared(self, name: str) -> bool:
        return True

    def is_eligible_attribute(self, element: str, attribute: str) -> bool:
        return element != _EVENT_TYPE and not attribute.startswith("xml:")

    def is_eligible_text(self, name: str, tag: str) -> bool:
        return tag != _VERSION_NUM


def _allows_any_value(attribute: DeclaredAttribute) -> bool:
    return (
        attribute.type == "cdata"
        and not attribute.fixed
        and attribute.declares_prefix is None
        and attribute.prefix != "xml"
    )


class Reason(enum.Enum):
    """The values are the names in the statistics."""

    SIZE = "size"

    TAGS = "tags"

    SLOTS = "slots"

    CONSTANTS = "constants"

    MARKUP = "markup"
    """A comment, processing instruction, CDATA section, reference, carriage return, single-quoted
    attribute, raw `>` or `"`, or a tab or line break in an attribute."""

    ENCODING = "encoding"
    """It declares another encoding than UTF-8."""

    UNDECLARED = "undeclared"
    """It uses a name that the DTD does not declare as written, but libxml2 accepts."""

    UNVERIFIED = "unverified"
    """The parser's tree differs from the one derived from the bytes."""

    CREDIT = "credit"
    """The type has learnt more shapes than its hits pay for."""


class NotLearnable(Exception):
    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


_NAME = rb"[^ \t\n<>/=\"'&]++"
_TAG = re.compile(
    rb"<(?P<end>/)?(?P<name>" + _NAME + rb")"
    rb"(?P<attributes>(?:[ \t\n]+" + _NAME + rb"[ \t\n]*=[ \t\n]*\"[^\"<]*+\")*+)"
    rb"[ \t\n]*+(?P<empty>/)?>"
)
_ATTRIBUTE = re.compile(rb"(" + _NAME + rb")[ \t\n]*=[ \t\n]*\"([^\"]*+)\"")
_PREFIXED_NAME = etree.XPath("name(@*[position() = $place])", regexp=False)


@attrs.frozen
class Token:
    start: int
    end: int
    node: Node
    attribute: AttributeClass | None
    is_valid: IsValid | None = None
    """Returns True for other valid values; None: all are."""


@attrs.frozen
class DocumentCut:
    """A document's eligible values in order, and its tree, without these values."""

    document: bytes
    tokens: tuple[Token, ...]
    tree: Node
    payload: Node | None

    def constants_around(self, tokens: tuple[Token, ...]) -> list[bytes]:
        """Return the bytes around these tokens, one piece more than tokens."""
        document, at, found = self.document, 0, []
        for token in tokens:
            found.append(document[at : token.start])
            at = token.end
        found.append(document[at:])
        return found

    def values_of(self, tokens: tuple[Token, ...]) -> tuple[bytes, ...]:
        """Return the bytes of these tokens, equal in the document and in the parser's tree."""
        return tuple(self.document[token.start : token.end] for token in tokens)


class DocumentCutter:
    """Cuts one document; `root` is its valid tree with defaults applied."""

    def __init__(
        self,
        document: bytes,
        root: etree._Element,
        payload: etree._Element | None,
        eligible: EligibleValues,
        max_constant_bytes: int,
        types: SlotTypes | None = None,
    ) -> None:
        """`types` are those of the schema, if there is one."""
        self._document = document
        self._elements: Iterator[etree._Element] = root.iter()
        self._payload = payload
        self._eligible = eligible
        self._max_constant_bytes = max_constant_bytes
        self._walker = SlotWalker(types)
        self._order = 0
        self._tokens: list[Token] = []
        self._tree = self._parent = Node(NodeKind.ROOT, None, 0)
        self._payload_node: Node | None = None
        #: Open elements, the innermost last, each with its name as written and in the DTD.
        self._open: list[tuple[bytes, str, etree._Element]] = []
        #: The element before the current text; None directly after a start tag.
        self._previous: etree._Element | None = None
        self._cut_bytes = 0

    def cut(self, start: int) -> DocumentCut:
        """Cut the document with its root element at offset `start`. Raises `NotLearnable`."""
        document, at = self._document, start
        while self._open or at == start:
            tag = _TAG.match(document, at)
            if tag is None:
                raise NotLearnable(Reason.MARKUP)
            if tag.end() - self._cut_bytes > self._max_constant_bytes:
                raise NotLearnable(Reason.CONSTANTS)
            if tag["end"]:
                self._end_tag(tag["name"])
            else:
                self._start_tag(tag)
                if tag["empty"]:
                    self._end_tag(tag["name"])
            at = tag.end()
            if self._open:
                at = self._cut_text(at, is_leaf=not (tag["end"] or tag["empty"]))
        if document[at:].strip(b" \t\n") or next(self._elements, None) is not None:
            raise NotLearnable(Reason.MARKUP)
        self._tree.last = self._order
        return DocumentCut(document, tuple(self._tokens), self._tree, self._payload_node)

    # ---------------------------------------------------------------- tags

    def _start_tag(self, tag: re.Match[bytes]) -> None:
        name, element = tag["name"], next(self._elements, None)
        if element is None:
            raise NotLearnable(Reason.UNVERIFIED)
        local, namespace = _split_name(str(element.tag))
        prefix = element.prefix
        declared = self._eligible.names_of_dtd.element_name(str(element.tag), prefix)
        if not self._eligible.is_declared(declared):
            raise NotLearnable(Reason.UNDECLARED)
        if name.decode() != (f"{prefix}:{local}" if prefix else local):
            raise NotLearnable(Reason.UNVERIFIED)
        node = Node(
            NodeKind.ELEMENT,
            self._parent,
            self._next_order(),
            namespace=namespace,
            local=local,
            prefix=prefix,
        )
        self._parent.children.append(node)
        if element is self._payload:
            self._payload_node = node
        self._parent = node
        self._open.append((name, declared, element))
        is_payload = element is self._payload
        self._walker.start(str(element.tag), map(str, element.keys()), is_payload=is_payload)
        self._previous = None
        self._cut_attributes(declared, element, tag.start("attributes"), tag.end("attributes"))

    def _end_tag(self, name: bytes) -> None:
        opened, _, self._previous = self._open.pop()
        self._walker.end()
        if opened != name or self._parent.parent is None:
            raise NotLearnable(Reason.UNVERIFIED)
        self._parent.last = self._order
        self._parent = self._parent.parent

    def _cut_attributes(self, name: str, element: etree._Element, start: int, end: int) -> None:
        if start == end and not element.attrib:
            return
        known = [(str(key), str(value)) for key, value in element.items()]
        place = 0
        for match in _ATTRIBUTE.finditer(self._document, start, end):
            written, value = match.groups()
            if SLOT_VALUE.fullmatch(value) is None:
                raise NotLearnable(Reason.MARKUP)
            if written == b"xmlns" or written.startswith(b"xmlns:"):
                continue
            clark, prefix = _clark_name(written.decode(), element)
            declared = self._eligible.names_of_dtd.attribute_name(clark, prefix)
            if not self._eligible.is_declared(declared):
                raise NotLearnable(Reason.UNDECLARED)
            text = value.decode()
            if declared in self._eligible.tokenised.get(name, ()):
                # The bytes remain constants; the tree has the value that queries see.
                text = normalise_tokens(text)
                value = text.encode()
            if place >= len(known) or known[place] != (clark, text):
                raise NotLearnable(Reason.UNVERIFIED)
            place += 1
            node = self._add_attribute(clark, prefix, value)
            if self._eligible.is_eligible_attribute(name, declared):
                check = self._walker.attribute_check(clark)
                self._add_token(match.start(2), match.end(2), node, (name, declared), check)
        # The remaining attributes are defaults from the DTD.
        for supplied, (clark, text) in enumerate(known[place:], place + 1):
            prefix = None
            if clark[0] == "{":
                prefix = str(_PREFIXED_NAME(element, place=supplied)).partition(":")[0]
            self._add_attribute(clark, prefix, text.encode())

    def _add_attribute(self, clark: str, prefix: str | None, value: bytes) -> Node:
        local, namespace = _split_name(clark)
        node = Node(
            NodeKind.ATTRIBUTE,
            self._parent,
            self._next_order(),
            namespace=namespace,
            local=local,
            prefix=prefix,
            value=value,
        )
        self._parent.attributes.append(node)
        return node

    # ---------------------------------------------------------------- texts

    def _cut_text(self, start: int, *, is_leaf: bool) -> int:
        document = self._document
        end = document.find(b"<", start)
        text = document[start:end]
        _, name, parent = self._open[-1]
        known = parent.text if self._previous is None else self._previous.tail
        if text.decode() != (known or ""):
            raise NotLearnable(Reason.UNVERIFIED)
        if not text:
            return end
        if SLOT_TEXT.fullmatch(text) is None:
            raise NotLearnable(Reason.MARKUP)
        node = Node(NodeKind.TEXT, self._parent, self._next_order(), value=text)
        self._parent.children.append(node)
        if (
            is_leaf
            and document.startswith(b"</", end)
            and self._eligible.is_eligible_text(name, str(parent.tag))
        ):
            self._add_token(start, end, node, None, self._walker.text_check())
        return end

    # ---------------------------------------------------------------- both

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def _add_token(
        self,
        start: int,
        end: int,
        node: Node,
        attribute: AttributeClass | None,
        check: SlotCheck | None,
    ) -> None:
        """Add a value, unless the schema may forbid other values."""
        is_valid = None
        if check is None:
            return
        if not check.is_free:
            is_valid = compile_check(check)
            if not is_valid(self._document[start:end]):
                # The check accepts only some of the valid values.
                return
        self._cut_bytes += end - start
        self._tokens.append(Token(start, end, node, attribute, is_valid))


def _split_name(clark: str) -> tuple[str, str | None]:
    if clark[0] != "{":
        return clark, None
    namespace, _, local = clark[1:].rpartition("}")
    return local, namespace


def _clark_name(written: str, element: etree._Element) -> tuple[str, str | None]:
    prefix, colon, local = written.partition(":")
    if not colon:
        return written, None
    namespace = XML_NAMESPACE if prefix == "xml" else element.nsmap.get(prefix)
    return f"{{{namespace}}}{local}", prefix


def copy_as_document(element: Node) -> Node:
    """Return the root node of a copy of the element as a document."""
    root = Node(NodeKind.ROOT, None, 0)
    # Within an element `order` has no gaps, so the orders of the copy follow from an offset.
    offset = element.order - 1
    _copy(element, root, offset)
    root.last = element.last - offset
    return root


def _copy(node: Node, parent: Node, offset: int) -> None:
    copy = Node(
        node.kind,
        parent,
        node.order - offset,
        namespace=node.namespace,
        local=node.local,
        prefix=node.prefix,
        value=node.value,
    )
    copy.last = node.last - offset
    (parent.attributes if node.kind is NodeKind.ATTRIBUTE else parent.children).append(copy)
    for below in (*node.attributes, *node.children):
        _copy(below, copy, offset)
