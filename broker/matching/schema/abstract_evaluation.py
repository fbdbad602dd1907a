"""Abstract evaluation of a query on all valid documents of a type at once (X10, F7).

A query that can not be true here matches no valid event.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import attrs

from broker.dtd.reference import DtdReference
from broker.event.envelope import Liveness, SecurityLevel, Validation
from broker.matching.query import tree
from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.query import Query
from broker.matching.query.tree import (
    Axis,
    Expression,
    KindTest,
    Path,
    PathStart,
    Step,
    ValueType,
    is_any_descendant,
)
from broker.matching.query.value_type import value_type
from broker.matching.schema.abstract_value import (
    UNKNOWN_STRING,
    NodeSet,
    Numbers,
    Strings,
    Truth,
    Value,
    to_numbers,
    to_truth,
    unite,
)
from broker.matching.schema.axis import ResolvedTest, follow_axis, follow_certainly, select_elements
from broker.matching.schema.cause import Cause, EmptyStep, FailedPart, Unsatisfiable, deeper_cause
from broker.matching.schema.document_graph import DocumentGraph, TooManyNodes
from broker.matching.schema.expression_evaluation import ExpressionEvaluation
from broker.matching.schema.schema import PayloadScope, Schema
from broker.matching.schema.schema_node import MAX_WORK, NodeKind, SchemaNode


class ReadLabels:
    """Collects labels. A wildcard inside a path reads nothing by itself."""

    def __init__(self, *, reading: bool = True) -> None:
        self._reading = reading
        self.labels: set[str] = set()

    def add_nodes(self, nodes: Iterable[SchemaNode]) -> None:
        for node in nodes if self._reading else ():
            self.labels.update(node.edge_labels)

    def add_text(self, nodes: Iterable[SchemaNode], spend: Callable[[int], None]) -> None:
        """Record that the string-values of nodes matter: everything inside them."""
        if not self._reading:
            return
        containers = [p for p in nodes if p.kind in (NodeKind.ELEMENT, NodeKind.ROOT)]
        self.add_nodes(follow_axis(Axis.DESCENDANT, containers, spend))

    def add_languages(self, nodes: Iterable[SchemaNode]) -> None:
        self.add_nodes(
            attribute
            for node in nodes
            for attribute in node.attributes
            if attribute.qualified == "xml:lang"
        )


class WorkLimitExceeded(Exception):
    """The query needs more work than allowed; its possible values are unknown."""


class AbstractEvaluation(ExpressionEvaluation):
    """One query on the documents of one payload scope. Records the labels that it reads."""

    def __init__(
        self, query: Query, schema: Schema, scope: PayloadScope, reads: ReadLabels, work: int
    ) -> None:
        self._query = query
        self._reference = schema.reference
        self._scope = scope
        self._labels = reads
        self._uris = {**dict(query.namespaces), **PREDEFINED_PREFIXES}
        self.work = work

    def evaluate_truth(self) -> Truth:
        return to_truth(self.evaluate(self._query.expression, self._scope.document.element))

    def evaluate(self, expression: tree.Expression, context: SchemaNode) -> Value:
        self._spend(0)
        return super().evaluate(expression, context)

    def evaluate_nodes(self, expression: tree.Expression, context: SchemaNode) -> NodeSet:
        match expression:
            case tree.Path():
                return self._evaluate_path(expression, context)
            case tree.Filter(primary=primary, predicates=predicates):
                node_set = self.evaluate_nodes(primary, context)
                return self._apply_predicates(node_set, predicates)
            case tree.Chain(operands=operands):
                node_set = NodeSet(frozenset())
                for operand in operands:
                    node_set = unite(node_set, self.evaluate_nodes(operand, context))
                return node_set
            case tree.FunctionCall(arguments=(argument,)):
                self._evaluate_operand(argument, context)
        # The result of id() may be any element.
        found = follow_axis(tree.Axis.DESCENDANT, [context.root], self._spend)
        return NodeSet(select_elements(found))

    def _evaluate_path(self, path: Path, context: SchemaNode) -> NodeSet:
        node_set = self._start(path.start, context)
        steps = path.steps
        at = 0
        while at < len(steps):
            step, axis = steps[at], steps[at].axis
            following = steps[at + 1] if at + 1 < len(steps) else None
            if is_any_descendant(step) and following is not None and following.axis is Axis.CHILD:
                # Treat `//a` as one step, which avoids the set of all nodes between.
                step, axis = following, Axis.DESCENDANT
                at += 1
            at += 1
            node_set = self._step(node_set, step, axis, last=at == len(steps))
            if not node_set.members:
                break
        return node_set

    def _start(self, start: PathStart | Expression, context: SchemaNode) -> NodeSet:
        if not isinstance(start, PathStart):
            node_set = self.evaluate(start, context)
            assert isinstance(node_set, NodeSet)
            return node_set
        if start is PathStart.CONTEXT:
            here = frozenset({context})
        elif start is PathStart.DOCUMENT:
            here = frozenset({self._scope.document.root})
        else:
            here = frozenset({self._scope.envelope.root})
        return NodeSet(here, here)

    def _step(self, node_set: NodeSet, step: Step, axis: Axis, *, last: bool) -> NodeSet:
        test = ResolvedTest(step.test, axis, self._uri(step))
        if axis is Axis.DESCENDANT and test.local is not None:
            found = self._named_below(node_set.members, test)
        else:
            found = [
                node
                for node in follow_axis(axis, node_set.members, self._spend)
                if test.accepts(node)
            ]
        if not found:
            missing = EmptyStep(step, axis, node_set.members, self._document(node_set.members))
            return NodeSet(frozenset(), cause=missing)
        sure = {node for node in follow_certainly(axis, node_set.certain) if test.accepts_all(node)}
        if test.local is not None:
            self._labels.add_nodes(found)
        kept = self._apply_predicates(NodeSet(frozenset(found), frozenset(sure)), step.predicates)
        if test.local is None and last:
            self._labels.add_nodes(kept.members)
        return kept

    def _named_below(self, starts: Collection[SchemaNode], test: ResolvedTest) -> list[SchemaNode]:
        documents = {id(d): d for d in (self._scope.document, self._scope.envelope)}
        named = [
            node
            for document in documents.values()
            for node in document.by_local.get(test.local or "", ())
            if test.accepts(node)
        ]
        if not named:
            return []
        if all(start is start.root for start in starts):
            self._spend(len(named))
            return [node for node in named if node.root in starts]
        below = follow_axis(Axis.DESCENDANT, starts, self._spend)
        return [node for node in named if node in below]

    def _uri(self, step: Step) -> str | None:
        test = step.test
        if isinstance(test, KindTest):
            return None
        if test.prefix is not None:
            return self._uris[test.prefix]
        return None if test.local is None else ""

    def _document(self, nodes: Collection[SchemaNode]) -> DocumentGraph:
        scope = self._scope
        inside = any(node.root is scope.document.root for node in nodes)
        return scope.document if inside else scope.envelope

    def _apply_predicates(self, node_set: NodeSet, predicates: tuple[Expression, ...]) -> NodeSet:
        for predicate in predicates:
            by_position = value_type(predicate) is ValueType.NUMBER
            kept, sure = set(), set()
            cause: Cause | None = None
            # Sorted, so that a query always has the same cause.
            for node in sorted(node_set.members, key=lambda node: node.label):
                value = self.evaluate(predicate, node)
                truth = to_truth(value)
                if by_position:
                    truth = _at_position(to_numbers(value), predicate, len(node_set.members))
                if truth.can_be_true:
                    kept.add(node)
                    if not truth.can_be_false and node in node_set.certain:
                        sure.add(node)
                else:
                    cause = deeper_cause(cause, truth.cause)
            if not kept:
                if node_set.members:
                    cause = cause or FailedPart(
                        predicate.position, lambda: "makes this always false"
                    )
                else:
                    cause = node_set.cause
                return NodeSet(frozenset(), cause=cause)
            node_set = NodeSet(frozenset(kept), frozenset(sure))
        return node_set

    def evaluate_variable(self, name: str) -> Value:
        return possible_values(name, self._reference)

    def read_text(self, node_set: NodeSet) -> None:
        self._labels.add_text(node_set.members, self._spend)

    def read_languages(self, context: SchemaNode) -> None:
        found = follow_axis(tree.Axis.ANCESTOR_OR_SELF, [context], self._spend)
        self._labels.add_languages(found)

    def _spend(self, nodes: int) -> None:
        self.work -= nodes + 1
        if self.work < 0:
            raise WorkLimitExceeded


def _at_position(number: Numbers, predicate: Expression, nodes: int) -> Truth:
    point = number.point
    if point is not None:
        possible = point >= 1 and point.is_integer()
        cause = FailedPart(predicate.position, lambda: "has nothing at such a position")
        return Truth(possible, not (point == 1 and nodes == 1), None if possible else cause)
    return Truth(number.low <= number.high and number.high >= 1, True)


_LARGEST = 2.0**63
_LEVELS = frozenset(level.value for level in SecurityLevel)
_LIVENESS = frozenset(liveness.value for liveness in Liveness)
_VALIDATIONS = frozenset(validation.value for validation in Validation)


def possible_values(name: str, reference: DtdReference) -> Value:
    match name:
        case "EventType":
            return _one_of(frozenset({reference.type}), name)
        case "VersionNum":
            return _one_of(frozenset({reference.version}), name)
        case "Securitylevel":
            return _one_of(_LEVELS, name)
        case "Liveness":
            return _one_of(_LIVENESS, name)
        case "Validation":
            return _one_of(_VALIDATIONS, name)
        case "SequenceNumber":
            return Numbers(1.0, _LARGEST, False)
        case "TimeStamp" | "Incarnation":
            return Numbers(0.0, _LARGEST, False)
    return UNKNOWN_STRING


def _one_of(values: frozenset[str], name: str) -> Strings:
    return Strings(values, lambda: f"${name}")


@attrs.frozen
class Analysis:
    unsatisfiable: Unsatisfiable | None
    labels: frozenset[str]
    #: Labels that the query reads.

    is_complete: bool
    #: False if the analysis took too much work: the query may match, and may read anything.

    work: int
    #: Schema nodes visited.


def check_satisfiability(
    query: Query, schema: Schema, work: int = MAX_WORK
) -> Unsatisfiable | None:
    """Return the cause why no valid event of this type matches; None if one may match.

    The result is sound. `work` limits the schema nodes visited; beyond it the result is None.
    """
    return analyse_query(query, schema, work, reading=False).unsatisfiable


def analyse_query(
    query: Query, schema: Schema, work: int = MAX_WORK, *, reading: bool = True
) -> Analysis:
    """Check satisfiability, and with `reading` collect the labels that the query reads."""
    reads = ReadLabels(reading=reading)
    cause: Cause | None = None
    possible = not schema.scopes
    complete = bool(schema.scopes)
    left = work
    try:
        for scope in schema.scopes:
            evaluation = AbstractEvaluation(query, schema, scope, reads, left)
            truth = evaluation.evaluate_truth()
            left = evaluation.work
            possible = possible or truth.can_be_true
            if possible and not reading:
                break
            cause = deeper_cause(
                cause, truth.cause or FailedPart(0, lambda: "makes this always false")
            )
    except (WorkLimitExceeded, TooManyNodes):
        possible, complete, left = True, False, 0
    unsatisfiable = None
    if not possible:
        assert cause is not None
        unsatisfiable = Unsatisfiable(schema.reference, cause, query)
    return Analysis(unsatisfiable, frozenset(reads.labels), complete, work - left)
