"""The wanted queries that no other covers, and which of the others stand behind them (F8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.matching.upstream.feature import Feature
from broker.matching.upstream.formula import FALSE
from broker.matching.upstream.want import Node, Want

#: How many of a node's children are asked whether they cover a new one, so that it goes below them:
#: the fewer stand directly under a node, the less is to do when it goes.
_DESCENT = 8
_ANY: Feature = ("any",)


class Forest:
    """Distinct wants. The roots are those that no other covers; of equivalent ones, the smallest.

    A want that can match nothing is in the forest, but neither a root nor under one. Which are the
    roots does not depend on the order in which the wants came, since covering is transitive.
    """

    def __init__(self, wants: Iterable[Want] = ()) -> None:
        self._nodes: dict[Want, Node] = {}
        self._roots: dict[Want, Node] = {}
        # Roots by a feature that they need, and by each that they offer.
        self._by_need: dict[Feature, dict[Node, None]] = {}
        self._by_offer: dict[Feature, dict[Node, None]] = {}
        self._access: dict[Node, Feature] = {}
        self._appeared: set[Want] = set()
        self._gone: set[Want] = set()
        for want in wants:
            self.add(want)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, want: Want) -> bool:
        return want in self._nodes

    @property
    def roots(self) -> dict[Want, Node]:
        """What is to be sent; not to be changed."""
        return self._roots

    def changes(self) -> tuple[frozenset[Want], frozenset[Want]]:
        """The roots that appeared and those that went since the last call."""
        found = frozenset(self._appeared), frozenset(self._gone)
        self._appeared.clear()
        self._gone.clear()
        return found

    def add(self, want: Want) -> None:
        """Put in a want that is not there."""
        node = self._nodes[want] = Node(want)
        self._place(node)

    def remove(self, want: Want) -> None:
        """Take out a want; those that stood behind it are placed again. Raises `KeyError`."""
        node = self._nodes.pop(want)
        if node.above is not None:
            del node.above.below[node]
            for each in node.below:
                node.above.adopt(each)
            return
        if want not in self._roots:
            return
        self._unroot(node)
        for each in node.below:
            each.above = None
        for each in node.below:
            self._place(each)

    def _place(self, node: Node) -> None:
        if node.form == FALSE:
            return
        for root in self._may_cover(node):
            if root.covers(node):
                if node.rank < root.rank and node.covers(root):
                    self._unroot(root)
                    node.adopt(root)
                    self._root(node)
                else:
                    self._sink(root, node)
                return
        for root in self._may_be_covered(node):
            if node.covers(root):
                self._unroot(root)
                node.adopt(root)
        self._root(node)

    def _sink(self, above: Node, node: Node) -> None:
        while True:
            for _, each in zip(range(_DESCENT), above.below, strict=False):
                # Below an equivalent one only what is larger than it, or the smallest would hide.
                if each.covers(node) and (each.rank < node.rank or not node.covers(each)):
                    above = each
                    break
            else:
                above.adopt(node)
                return

    def _may_cover(self, node: Node) -> Iterator[Node]:
        for feature in (*node.offered, _ANY):
            yield from list(self._by_need.get(feature, ()))

    def _may_be_covered(self, node: Node) -> list[Node]:
        found: dict[Node, None] | None = None
        for feature in node.needed:
            offering = self._by_offer.get(feature)
            if not offering:
                return []
            if found is None or len(offering) < len(found):
                found = offering
        return list(self._roots.values() if found is None else found)

    def _root(self, node: Node) -> None:
        node.above = None
        self._roots[node.want] = node
        _note(node.want, self._appeared, self._gone)
        for feature in node.offered:
            self._by_offer.setdefault(feature, {})[node] = None
        access = min(node.needed, key=lambda each: len(self._by_need.get(each, ())), default=_ANY)
        self._access[node] = access
        self._by_need.setdefault(access, {})[node] = None

    def _unroot(self, node: Node) -> None:
        del self._roots[node.want]
        _note(node.want, self._gone, self._appeared)
        for feature in node.offered:
            _drop(self._by_offer, feature, node)
        _drop(self._by_need, self._access.pop(node), node)


def _drop(index: dict[Feature, dict[Node, None]], feature: Feature, node: Node) -> None:
    found = index[feature]
    del found[node]
    if not found:
        del index[feature]


def _note(want: Want, here: set[Want], there: set[Want]) -> None:
    if want in there:
        there.remove(want)
    else:
        here.add(want)
