"""Location paths and predicates on places: XPath 1.0, section 2, over all documents at once."""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker.matching.query.namespaces import BOUND
from broker.matching.query.query import Query
from broker.matching.query.tree import Axis, Expression, KindTest, Origin, Path, Step, ValueType
from broker.matching.query.value_type import value_type
from broker.matching.schema.axes import Test, along, certain
from broker.matching.schema.blame import Blame, Missing, Why, deepest
from broker.matching.schema.document import Document
from broker.matching.schema.places import Place
from broker.matching.schema.reads import Reads
from broker.matching.schema.schema import Scope
from broker.matching.schema.values import NodeSet, Numbers, Truth, Value, numbers_of, truth_of

_ANY_NODE = KindTest("node")


class Walk:
    """The paths of one query on the documents of one scope.

    `evaluate` gives the value of an expression at a place, `spend` is told how many places were
    looked at.
    """

    def __init__(
        self,
        query: Query,
        scope: Scope,
        reads: Reads,
        evaluate: Callable[[Expression, Place], Value],
        spend: Callable[[int], None],
    ) -> None:
        self._scope = scope
        self._reads = reads
        self._evaluate = evaluate
        self._spend = spend
        self._uris = {**dict(query.namespaces), **BOUND}

    def path(self, path: Path, context: Place) -> NodeSet:
        """The nodes that a path finds from a context node."""
        nodes = self._start(path.start, context)
        steps = path.steps
        at = 0
        while at < len(steps):
            step, axis = steps[at], steps[at].axis
            following = steps[at + 1] if at + 1 < len(steps) else None
            if _is_any_descendant(step) and following is not None and following.axis is Axis.CHILD:
                # `//a` as one step: the places between need not be made a set of.
                step, axis = following, Axis.DESCENDANT
                at += 1
            at += 1
            nodes = self._step(nodes, step, axis, last=at == len(steps))
            if not nodes.places:
                break
        return nodes

    def _start(self, start: Origin | Expression, context: Place) -> NodeSet:
        if not isinstance(start, Origin):
            nodes = self._evaluate(start, context)
            assert isinstance(nodes, NodeSet)
            return nodes
        if start is Origin.CONTEXT:
            here = frozenset({context})
        elif start is Origin.DOCUMENT:
            here = frozenset({self._scope.document.root})
        else:
            here = frozenset({self._scope.envelope.root})
        return NodeSet(here, here)

    def _step(self, nodes: NodeSet, step: Step, axis: Axis, *, last: bool) -> NodeSet:
        test = Test(step.test, axis, self._uri(step))
        if axis is Axis.DESCENDANT and test.local is not None:
            found = self._named_below(nodes.places, test)
        else:
            found = [
                place for place in along(axis, nodes.places, self._spend) if test.accepts(place)
            ]
        if not found:
            missing = Missing(step, axis, nodes.places, self._document(nodes.places))
            return NodeSet(frozenset(), why=missing)
        sure = {place for place in certain(axis, nodes.certain) if test.sure_of(place)}
        if test.local is not None:
            self._reads.nodes(found)
        kept = self.filter(NodeSet(frozenset(found), frozenset(sure)), step.predicates)
        if test.local is None and last:
            self._reads.nodes(kept.places)
        return kept

    def _named_below(self, starts: Collection[Place], test: Test) -> list[Place]:
        documents = {id(d): d for d in (self._scope.document, self._scope.envelope)}
        named = [
            place
            for document in documents.values()
            for place in document.by_local.get(test.local or "", ())
            if test.accepts(place)
        ]
        if not named:
            return []
        if all(start is start.root for start in starts):
            self._spend(len(named))
            return [place for place in named if place.root in starts]
        below = along(Axis.DESCENDANT, starts, self._spend)
        return [place for place in named if place in below]

    def _uri(self, step: Step) -> str | None:
        test = step.test
        if isinstance(test, KindTest):
            return None
        if test.prefix is not None:
            return self._uris[test.prefix]
        return None if test.local is None else ""

    def _document(self, places: Collection[Place]) -> Document:
        scope = self._scope
        inside = any(place.root is scope.document.root for place in places)
        return scope.document if inside else scope.envelope

    def filter(self, nodes: NodeSet, predicates: tuple[Expression, ...]) -> NodeSet:
        """The nodes for which predicates can be true."""
        for predicate in predicates:
            by_position = value_type(predicate) is ValueType.NUMBER
            kept, sure = set(), set()
            why: Why | None = None
            # In order, so that the same query is always told the same.
            for place in sorted(nodes.places, key=lambda place: place.label):
                value = self._evaluate(predicate, place)
                truth = truth_of(value)
                if by_position:
                    truth = _at_position(numbers_of(value), predicate, len(nodes.places))
                if truth.can_be_true:
                    kept.add(place)
                    if not truth.can_be_false and place in nodes.certain:
                        sure.add(place)
                else:
                    why = deepest(why, truth.why)
            if not kept:
                if nodes.places:
                    why = why or Blame(predicate.position, lambda: "lets this never be true")
                else:
                    why = nodes.why
                return NodeSet(frozenset(), why=why)
            nodes = NodeSet(frozenset(kept), frozenset(sure))
        return nodes


def _is_any_descendant(step: Step) -> bool:
    return step.axis is Axis.DESCENDANT_OR_SELF and step.test == _ANY_NODE and not step.predicates


def _at_position(number: Numbers, predicate: Expression, places: int) -> Truth:
    """Whether a node can stand at the position that a predicate gives as a number."""
    point = number.point
    if point is not None:
        possible = point >= 1 and point.is_integer()
        why = Blame(predicate.position, lambda: "has nothing at such a position")
        return Truth(possible, not (point == 1 and places == 1), None if possible else why)
    return Truth(number.low <= number.high and number.high >= 1, True)
