"""What must occur in a document for a query to match: a necessary condition, sometimes exact."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from broker.matching.paths.emptiness import UNKNOWN, node_sets, truth
from broker.matching.paths.requirement import (
    ALWAYS,
    NEVER,
    Requirements,
    conjunction,
    disjunction,
)
from broker.matching.paths.requirement import UNKNOWN as NOTHING_SURE
from broker.matching.paths.pattern import Document, LabelKind, PatternStep
from broker.matching.paths.abstract_node import Reached
from broker.matching.query.namespaces import BOUND
from broker.matching.query.query import Query
from broker.matching.query.tree import (
    Chain,
    Expression,
    Filter,
    FunctionCall,
    Origin,
    Path,
    ValueType,
)
from broker.matching.query.value_type import value_type

#: Outside all predicates the context is the payload's element, whatever its name.
_OUTERMOST = Reached(Document.PAYLOAD, (PatternStep(False, LabelKind.ELEMENT),))


def requirements(query: Query) -> Requirements:
    """The patterns of which a matching document must have some (F2).

    Envelope variables, `not()`, positions and values require nothing.
    """
    return requirements_of(query.expression, dict(query.namespaces))


def requirements_of(expression: Expression, namespaces: Mapping[str, str]) -> Requirements:
    """The same for an expression whose prefixes `namespaces` resolves."""
    return _Derivation({**namespaces, **BOUND}).of(expression, _OUTERMOST)


class _Derivation:
    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._namespaces = namespaces

    def of(self, expression: Expression, context: Reached) -> Requirements:
        """For its boolean value to be true."""
        if value_type(expression) is ValueType.NODE_SET:
            return self._non_empty(expression, context)
        match expression:
            case Chain(operator=joint, operands=operands):
                join = conjunction if joint == "and" else disjunction
                return reduce(join, (self.of(each, context) for each in operands))
            case FunctionCall(name="boolean", arguments=(argument,)):
                return self.of(argument, context)
        constant = truth(expression)
        if constant is not UNKNOWN:
            return ALWAYS if constant else NEVER
        result = NOTHING_SURE
        for node_set in node_sets(expression):
            if truth(expression, node_set) is False:
                result = conjunction(result, self._non_empty(node_set, context))
        return result

    def _non_empty(self, node_set: Expression, context: Reached) -> Requirements:
        ends = self._ends(node_set, context)
        return reduce(disjunction, (end.requirements() for end in ends), NEVER)

    def _ends(self, node_set: Expression, context: Reached) -> list[Reached]:
        match node_set:
            case Chain(operands=operands):
                return [end for each in operands for end in self._ends(each, context)]
            case Filter(primary=primary, predicates=predicates):
                return [
                    self._tested(end, predicates, context) for end in self._ends(primary, context)
                ]
            case Path(start=start, steps=steps):
                ends = self._starts(start, context)
                for step in steps:
                    ends = [
                        self._tested(end, step.predicates, context)
                        for here in ends
                        if (end := here.step(step, self._namespaces)) is not None
                    ]
                return ends
        # What id() finds depends on a DTD, and on the document that it looks in.
        return [Reached(context.document, exact=False, lost=True)]

    def _starts(self, start: Origin | Expression, context: Reached) -> list[Reached]:
        match start:
            case Origin.CONTEXT:
                return [context.inward()]
            case Origin.DOCUMENT:
                return [Reached(Document.PAYLOAD)]
            case Origin.ENVELOPE:
                return [Reached(Document.ENVELOPE)]
        return self._ends(start, context)

    def _tested(
        self, end: Reached, predicates: tuple[Expression, ...], context: Reached
    ) -> Reached:
        if end.lost:
            return end
        exact = len(predicates) == 1 and end.required == ALWAYS and _plain(predicates[0])
        for predicate in predicates:
            if value_type(predicate) is ValueType.NUMBER:
                needs = NOTHING_SURE
            else:
                needs = self.of(predicate, end.inward())
            end = end.needing(needs, exact=exact and needs.exact)
        return end


def _plain(predicate: Expression) -> bool:
    """Whether it only asks for nodes below the context, so that their label paths decide it."""
    match predicate:
        case Path(start=start):
            return start is Origin.CONTEXT
        case Chain(operator="or" | "|", operands=operands):
            return all(map(_plain, operands))
        case FunctionCall(name="boolean", arguments=(argument,)):
            return _plain(argument)
    return False
