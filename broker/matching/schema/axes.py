"""The thirteen axes on places: where a step leads, and what is certain to be found there.

Order among siblings is not known, so the sibling axes, `following` and `preceding` find all that
may stand beside a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from broker.matching.query.tree import Axis, KindTest, NodeTest
from broker.matching.schema.namespaces import Namespaces
from broker.matching.schema.places import NodeKind, Place

_PRINCIPAL = {Axis.ATTRIBUTE: NodeKind.ATTRIBUTE, Axis.NAMESPACE: NodeKind.NAMESPACE}
_INSIDE = frozenset({Axis.ATTRIBUTE, Axis.CHILD})
_BELOW = frozenset({Axis.DESCENDANT, Axis.DESCENDANT_OR_SELF})
_ITSELF = frozenset({Axis.SELF, Axis.DESCENDANT_OR_SELF, Axis.ANCESTOR_OR_SELF})


class Test:
    """A node test with its prefix resolved, on one axis. `uri` is "" for a name without prefix."""

    def __init__(self, test: NodeTest, axis: Axis, uri: str | None) -> None:
        self._kind = test.kind if isinstance(test, KindTest) else None
        self.local = None if isinstance(test, KindTest) else test.local
        self._uri = uri
        self._principal = _PRINCIPAL.get(axis, NodeKind.ELEMENT)

    def accepts(self, place: Place) -> bool:
        """Whether a node at the place can pass."""
        if self._kind is not None:
            if self._kind == "node":
                return True
            return place.kind is (NodeKind.TEXT if self._kind == "text" else NodeKind.REMARK)
        if place.kind is not self._principal:
            return False
        if place.kind is NodeKind.NAMESPACE:
            return True
        return self.local in (None, place.local) and self._among(place.namespaces)

    def _among(self, uris: Namespaces) -> bool:
        return self._uri is None or uris is None or self._uri in uris

    def sure_of(self, place: Place) -> bool:
        """Whether every node at the place passes."""
        if self._kind == "node":
            return True
        if place.kind is NodeKind.REMARK or not self.accepts(place):
            return False
        return (
            self._kind is not None
            or self._uri is None
            or place.namespaces == frozenset({self._uri})
        )


def along(axis: Axis, starts: Collection[Place], spend: Callable[[int], None]) -> set[Place]:
    """All places on the axis from any of the starts. `spend` is told how many were looked at."""
    match axis:
        case Axis.SELF:
            found = set(starts)
        case Axis.CHILD:
            found = _contents(starts)
        case Axis.ATTRIBUTE:
            found = {inner for place in starts for inner in place.attributes}
        case Axis.PARENT:
            found = _parents(starts)
        case Axis.DESCENDANT:
            found = _closure(starts, lambda place: place.contents, spend)
        case Axis.DESCENDANT_OR_SELF:
            found = _closure(starts, lambda place: place.contents, spend) | set(starts)
        case Axis.ANCESTOR:
            found = _closure(starts, lambda place: place.parents, spend)
        case Axis.ANCESTOR_OR_SELF:
            found = _closure(starts, lambda place: place.parents, spend) | set(starts)
        case Axis.FOLLOWING_SIBLING | Axis.PRECEDING_SIBLING:
            inside = [p for p in starts if p.kind not in (NodeKind.ATTRIBUTE, NodeKind.NAMESPACE)]
            found = _contents(_parents(inside))
        case Axis.FOLLOWING | Axis.PRECEDING:
            roots = {place.root for place in starts if place.kind is not NodeKind.ROOT}
            found = _closure(roots, lambda place: place.contents, spend)
        case Axis.NAMESPACE:
            found = _namespaces([place for place in starts if place.kind is NodeKind.ELEMENT])
    spend(len(found) + len(starts))
    return found


def certain(axis: Axis, starts: Iterable[Place]) -> set[Place]:
    """Places on the axis where a node is found for sure, if there is one at each of the starts."""
    found: set[Place] = set(starts) if axis in _ITSELF else set()
    if axis in _INSIDE:
        wanted = _PRINCIPAL.get(axis, NodeKind.ELEMENT)
        return {p for start in starts for p in start.required if p.kind is wanted}
    if axis in _BELOW:
        waiting = list(starts)
        seen = set(waiting)
        while waiting:
            inner = [p for p in waiting.pop().required if p.kind is NodeKind.ELEMENT]
            found.update(inner)
            waiting += [place for place in inner if place not in seen]
            seen.update(inner)
    elif axis is Axis.PARENT:
        outer = {start.parents[0] for start in starts if len(start.parents) == 1}
        found = {place for place in outer if place.kind is not NodeKind.POOL}
    return found


def _contents(places: Iterable[Place]) -> set[Place]:
    found = {inner for place in places for inner in place.contents}
    for pool in [place for place in found if place.kind is NodeKind.POOL]:
        found.remove(pool)
        found.update(pool.contents)
    return found


def _parents(places: Iterable[Place]) -> set[Place]:
    found = {outer for place in places for outer in place.parents}
    for pool in [place for place in found if place.kind is NodeKind.POOL]:
        found.remove(pool)
        found.update(pool.parents)
    return found


def _namespaces(elements: list[Place]) -> set[Place]:
    if not elements:
        return set()
    declared = Place(NodeKind.NAMESPACE, "namespace::*", elements[0].root)
    declared.parents.extend(elements)
    return {declared}


def elements_of(places: Iterable[Place]) -> frozenset[Place]:
    """Those of the places where there are elements."""
    return frozenset(place for place in places if place.kind is NodeKind.ELEMENT)


def _closure(
    starts: Iterable[Place],
    onwards: Callable[[Place], list[Place]],
    spend: Callable[[int], None],
) -> set[Place]:
    found: set[Place] = set()
    waiting = list(starts)
    while waiting:
        for place in onwards(waiting.pop()):
            if place not in found:
                found.add(place)
                waiting.append(place)
        spend(0)
    return {place for place in found if place.kind is not NodeKind.POOL}
