"""Interned label paths, and their collection from documents and shapes."""

from __future__ import annotations

from lxml import etree

from broker.matching.paths.pattern import DocumentRole, LabelKind, matching_keys
from broker.matching.shape.tree import Node, NodeKind

#: Interned label paths. Further ones are created anew for each document.
MAX_LABEL_PATHS = 65_536
_NO_NAME = ""


class LabelPath:
    """Names from a document's root to a node; unique if interned. The root's path has no labels."""

    __slots__ = (
        "attributes",
        "document",
        "elements",
        "is_interned",
        "keys",
        "kind",
        "parent",
        "texts",
    )

    def __init__(
        self,
        document: DocumentRole,
        parent: LabelPath | None = None,
        kind: LabelKind = LabelKind.ELEMENT,
        tag: str = "",
        *,
        is_interned: bool = True,
    ) -> None:
        self.document = document
        self.parent = parent
        self.kind = kind
        self.is_interned = is_interned
        namespace, _, local = tag[1:].rpartition("}") if tag[:1] == "{" else ("", "", tag)
        self.keys = matching_keys(kind, namespace, local)
        # Children by lxml's spelling of the name.
        self.elements: dict[str, LabelPath] = {}
        self.attributes: dict[str, LabelPath] = {}
        self.texts: dict[str, LabelPath] = {}

    def label_keys(self) -> list[tuple[str, str, str]]:
        found = []
        here = self
        while here.parent is not None:
            found.append(here.keys)
            here = here.parent
        found.reverse()
        return found


class LabelPathTable:
    def __init__(self, max_paths: int = MAX_LABEL_PATHS) -> None:
        self._max_paths = max_paths
        self._interned_count = 0
        self._roots = {document: LabelPath(document) for document in DocumentRole}

    def __len__(self) -> int:
        return self._interned_count

    def collect_from_tree(
        self,
        root: etree._Element,
        document: DocumentRole,
        *,
        attributes: bool = True,
        texts: bool = True,
    ) -> set[LabelPath]:
        """Return the label paths of the document below `root`, DTD defaults included.

        Those of elements alone take a third of the time.
        """
        transient = _TransientPaths()
        found: set[LabelPath] = set()
        above, left = self._roots[document], 1
        waiting: list[tuple[LabelPath, int]] = []
        # In document order, counting children down: much faster than asking lxml for them.
        for element in root.iter():
            while not left:
                above, left = waiting.pop()
            left -= 1
            if texts and element.tail is not None and element is not root:
                found.add(above.texts.get(_NO_NAME) or self._text_path(above, transient))
            tag = element.tag
            if type(tag) is not str:
                continue
            here = above.elements.get(tag) or self._child_path(
                above, above.elements, LabelKind.ELEMENT, tag, transient
            )
            found.add(here)
            if attributes:
                for name in map(str, element.keys()):
                    found.add(
                        here.attributes.get(name)
                        or self._child_path(
                            here, here.attributes, LabelKind.ATTRIBUTE, name, transient
                        )
                    )
            if texts and element.text is not None:
                found.add(here.texts.get(_NO_NAME) or self._text_path(here, transient))
            children = len(element)
            if children:
                waiting.append((above, left))
                above, left = here, children
        return found

    def collect_from_shape(self, root: Node, document: DocumentRole) -> set[LabelPath]:
        transient = _TransientPaths()
        found: set[LabelPath] = set()
        open_nodes = [(root, self._roots[document])]
        while open_nodes:
            node, above = open_nodes.pop()
            if node.kind is NodeKind.ROOT:
                here = above
            else:
                kind, children = _label_of(node, above)
                tag = f"{{{node.namespace}}}{node.local}" if node.namespace else node.local
                here = children.get(tag) or self._child_path(above, children, kind, tag, transient)
                found.add(here)
            open_nodes.extend((each, here) for each in node.attributes)
            open_nodes.extend((each, here) for each in node.children)
        return found

    def _text_path(self, above: LabelPath, transient: _TransientPaths) -> LabelPath:
        return self._child_path(above, above.texts, LabelKind.TEXT, _NO_NAME, transient)

    def _child_path(
        self,
        above: LabelPath,
        children: dict[str, LabelPath],
        kind: LabelKind,
        tag: str,
        transient: _TransientPaths,
    ) -> LabelPath:
        if self._interned_count < self._max_paths and above.is_interned:
            self._interned_count += 1
            new = children[tag] = LabelPath(above.document, above, kind, tag)
            return new
        return transient.child_path(above, kind, tag)


class _TransientPaths:
    def __init__(self) -> None:
        self._known: dict[tuple[LabelPath, LabelKind, str], LabelPath] = {}

    def child_path(self, above: LabelPath, kind: LabelKind, tag: str) -> LabelPath:
        key = (above, kind, tag)
        if key not in self._known:
            self._known[key] = LabelPath(above.document, above, kind, tag, is_interned=False)
        return self._known[key]


def _label_of(node: Node, above: LabelPath) -> tuple[LabelKind, dict[str, LabelPath]]:
    if node.kind is NodeKind.ELEMENT:
        return LabelKind.ELEMENT, above.elements
    if node.kind is NodeKind.ATTRIBUTE:
        return LabelKind.ATTRIBUTE, above.attributes
    return LabelKind.TEXT, above.texts
