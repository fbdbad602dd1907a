"""Interest in the events of some streams that match a query."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from broker.event.stream import StreamPattern
from broker.matching.covering.feature import (
    Bounds,
    Feature,
    bounds_may_follow,
    offered_bounds,
    offered_features,
    offered_stream_features,
    required_bounds,
    required_features,
    required_stream_features,
)
from broker.matching.covering.formula import Formula
from broker.matching.covering.implication import implies
from broker.matching.covering.normal_form import normalise_query
from broker.matching.query.query import Query


@attrs.frozen(slots=True, cache_hash=True)
class StreamInterest:
    pattern: StreamPattern
    query: Query

    @property
    def rank(self) -> tuple[str, str, tuple[tuple[str, str], ...]]:
        """Sort key. The smallest of equivalent interests is announced."""
        return (self.pattern.text, self.query.text, self.query.namespaces)


class CoverNode:
    """A node of the cover forest. Its parent covers it; it covers its children."""

    __slots__ = (
        *("parent", "children", "form", "rank", "interest", "required_features"),
        *("required_bounds", "offered_features", "offered_bounds"),
    )

    def __init__(self, interest: StreamInterest) -> None:
        pattern, form = interest.pattern, normalise_query(interest.query)
        self.interest = interest
        self.rank = interest.rank
        self.form: Formula = form
        self.required_features: frozenset[Feature] = required_features(
            form
        ) | required_stream_features(pattern)
        self.offered_features: frozenset[Feature] = offered_features(
            form
        ) | offered_stream_features(pattern)
        self.required_bounds: Bounds = required_bounds(form)
        self.offered_bounds: Bounds = offered_bounds(form)
        self.parent: CoverNode | None = None
        self.children: dict[CoverNode, None] = {}

    def covers(self, other: CoverNode) -> bool:
        """True if this interest covers the other one. Cheap tests come first."""
        return (
            bounds_may_follow(other.offered_bounds, self.required_bounds)
            and self.required_features <= other.offered_features
            and self.interest.pattern.covers(other.interest.pattern)
            and implies(other.form, self.form)
        )

    def subtree(self) -> Iterator[CoverNode]:
        """Yield this node and all below it."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending += node.children

    def add_child(self, other: CoverNode) -> None:
        other.parent = self
        self.children[other] = None
