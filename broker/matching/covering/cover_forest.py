"""Cover forest: interests that no other covers, with the interests covered by each (F8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.matching.covering.feature import Feature
from broker.matching.covering.formula import FALSE
from broker.matching.covering.stream_interest import CoverNode, StreamInterest

#: Children that are tested for covering a new node, which then goes below one of them. Fewer direct
#: children make the removal of a node cheaper.
_MAX_DESCENT_CHECKS = 8
_ANY: Feature = ("any",)


class CoverForest:
    """Distinct interests. Roots are not covered by any other; of equivalent ones the smallest is a
    root.

    An interest that matches nothing is neither a root nor below one. Covering is transitive, so the
    roots do not depend on the order of insertion.
    """

    def __init__(self, interests: Iterable[StreamInterest] = ()) -> None:
        self._nodes: dict[StreamInterest, CoverNode] = {}
        self._roots: dict[StreamInterest, CoverNode] = {}
        # Roots by one feature that they require, and by each feature that they offer.
        self._by_required: dict[Feature, dict[CoverNode, None]] = {}
        self._by_offered: dict[Feature, dict[CoverNode, None]] = {}
        self._lookup_feature: dict[CoverNode, Feature] = {}
        self._appeared: set[StreamInterest] = set()
        self._disappeared: set[StreamInterest] = set()
        for interest in interests:
            self.add(interest)

    @property
    def roots(self) -> dict[StreamInterest, CoverNode]:
        """The interests to announce. Callers must not change the dict."""
        return self._roots

    def take_changes(self) -> tuple[frozenset[StreamInterest], frozenset[StreamInterest]]:
        found = frozenset(self._appeared), frozenset(self._disappeared)
        self._appeared.clear()
        self._disappeared.clear()
        return found

    def add(self, interest: StreamInterest) -> None:
        node = self._nodes[interest] = CoverNode(interest)
        self._place_node(node)

    def remove(self, interest: StreamInterest) -> None:
        """Remove an interest and place those below it again. Raises `KeyError`."""
        node = self._nodes.pop(interest)
        if node.parent is not None:
            del node.parent.children[node]
            for each in node.children:
                node.parent.add_child(each)
            return
        if interest not in self._roots:
            return
        self._remove_root(node)
        for each in node.children:
            each.parent = None
        for each in node.children:
            self._place_node(each)

    def _place_node(self, node: CoverNode) -> None:
        if node.form == FALSE:
            return
        for root in self._covering_candidates(node):
            if root.covers(node):
                if node.rank < root.rank and node.covers(root):
                    self._remove_root(root)
                    node.add_child(root)
                    self._add_root(node)
                else:
                    self._place_below(root, node)
                return
        for root in self._covered_candidates(node):
            if node.covers(root):
                self._remove_root(root)
                node.add_child(root)
        self._add_root(node)

    def _place_below(self, parent: CoverNode, node: CoverNode) -> None:
        while True:
            for _, each in zip(range(_MAX_DESCENT_CHECKS), parent.children, strict=False):
                # Below an equivalent node only larger ones, or the smallest would be hidden.
                if each.covers(node) and (each.rank < node.rank or not node.covers(each)):
                    parent = each
                    break
            else:
                parent.add_child(node)
                return

    def _covering_candidates(self, node: CoverNode) -> Iterator[CoverNode]:
        for feature in (*node.offered_features, _ANY):
            yield from list(self._by_required.get(feature, ()))

    def _covered_candidates(self, node: CoverNode) -> list[CoverNode]:
        found: dict[CoverNode, None] | None = None
        for feature in node.required_features:
            offering = self._by_offered.get(feature)
            if not offering:
                return []
            if found is None or len(offering) < len(found):
                found = offering
        return list(self._roots.values() if found is None else found)

    def _add_root(self, node: CoverNode) -> None:
        node.parent = None
        self._roots[node.interest] = node
        _record_change(node.interest, self._appeared, self._disappeared)
        for feature in node.offered_features:
            self._by_offered.setdefault(feature, {})[node] = None
        access = min(
            node.required_features,
            key=lambda each: len(self._by_required.get(each, ())),
            default=_ANY,
        )
        self._lookup_feature[node] = access
        self._by_required.setdefault(access, {})[node] = None

    def _remove_root(self, node: CoverNode) -> None:
        del self._roots[node.interest]
        _record_change(node.interest, self._disappeared, self._appeared)
        for feature in node.offered_features:
            _remove_feature(self._by_offered, feature, node)
        _remove_feature(self._by_required, self._lookup_feature.pop(node), node)


def _remove_feature(
    index: dict[Feature, dict[CoverNode, None]], feature: Feature, node: CoverNode
) -> None:
    found = index[feature]
    del found[node]
    if not found:
        del index[feature]


def _record_change(
    interest: StreamInterest, here: set[StreamInterest], there: set[StreamInterest]
) -> None:
    if interest in there:
        there.remove(interest)
    else:
        here.add(interest)
