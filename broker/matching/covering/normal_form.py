"""Conversion of queries to normal form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import attrs

from broker.matching.covering.formula import (
    FALSE,
    SELF,
    Atom,
    Constant,
    Exists,
    Formula,
    Not,
    Opaque,
    PathStep,
    combine,
    conjuncts,
)
from broker.matching.covering.implication import is_true_of
from broker.matching.paths.emptiness import outermost_node_sets, truth_if_empty
from broker.matching.paths.pattern import LabelKind
from broker.matching.query import tree
from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.number import parse_number
from broker.matching.query.query import Query
from broker.matching.query.tree import (
    MIRRORED_OPERATORS,
    Axis,
    Expression,
    FunctionCall,
    PathStart,
    Step,
    ValueType,
)
from broker.matching.query.value_type import is_positional, value_type

_ROOT_ELEMENT = PathStep(False, LabelKind.ELEMENT, None, None)


@lru_cache(maxsize=4096)
def normalise_query(query: Query) -> Formula:
    normaliser = _Normaliser({**dict(query.namespaces), **PREDEFINED_PREFIXES})
    return normaliser.normalise(query.expression, outermost=True)


class _Normaliser:
    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._namespaces = namespaces

    def normalise(self, expression: Expression, *, outermost: bool = False) -> Formula:
        """Normalise an expression as a boolean. If `outermost`, its context is the root element."""
        if value_type(expression) is ValueType.NODE_SET:
            return self._normalise_node_set(expression, (), outermost)
        match expression:
            case tree.Chain(operator=sign, operands=operands):
                return combine(sign, [self.normalise(o, outermost=outermost) for o in operands])
            case FunctionCall(name="boolean", arguments=(argument,)):
                return self.normalise(argument, outermost=outermost)
            case FunctionCall(name="not", arguments=(argument,)):
                operand = self.normalise(argument, outermost=outermost)
                return (
                    Constant(not operand.value) if isinstance(operand, Constant) else Not(operand)
                )
        constant = truth_if_empty(expression)
        if constant is not None:
            return Constant(constant)
        match expression:
            case tree.Binary(operator=sign, left=left, right=right) if sign in MIRRORED_OPERATORS:
                return self._normalise_comparison(expression, sign, left, right, outermost)
            case FunctionCall(name=("starts-with" | "contains") as name, arguments=(text, part)):
                if isinstance(part, tree.Literal):
                    return self._normalise_value(expression, text, name, part.value, outermost)
        return self._make_opaque(expression, outermost)

    def _normalise_comparison(
        self, whole: Expression, sign: str, left: Expression, right: Expression, outermost: bool
    ) -> Formula:
        constant = tree.literal_value(right)
        if constant is None:
            constant, left, sign = tree.literal_value(left), right, MIRRORED_OPERATORS[sign]
        kind = value_type(left)
        if constant is None or kind is ValueType.BOOLEAN:
            return self._make_opaque(whole, outermost)
        if isinstance(constant, str) and (sign[0] in "<>" or kind is ValueType.NUMBER):
            constant = parse_number(constant)
        if isinstance(constant, float) and math.isnan(constant):
            return FALSE if sign != "!=" else self._make_opaque(whole, outermost)
        if kind is ValueType.NODE_SET:
            return self._normalise_node_set(left, (Atom(SELF, False, sign, constant),), outermost)
        match left:
            case FunctionCall(name="number", arguments=(argument,)) if value_type(argument) in (
                ValueType.NODE_SET,
                ValueType.STRING,
            ):
                if isinstance(constant, float):
                    return self._normalise_value(whole, argument, sign, constant, outermost)
            case FunctionCall(name="count", arguments=(counted,)) if (sign, constant) in (
                (">", 0.0),
                (">=", 1.0),
                ("!=", 0.0),
            ):
                return self._normalise_node_set(counted, (), outermost)
        return self._normalise_value(whole, left, sign, constant, outermost)

    def _normalise_value(
        self,
        whole: Expression,
        subject: Expression,
        sign: str,
        constant: str | float,
        outermost: bool,
    ) -> Formula:
        while isinstance(subject, FunctionCall) and subject.name == "string" and subject.arguments:
            subject = subject.arguments[0]
        if isinstance(subject, FunctionCall) and subject.name == "string":
            return Atom(SELF, False, sign, constant)
        kind = value_type(subject)
        if kind is ValueType.NODE_SET:
            own = Atom(SELF, False, sign, constant)
            if _is_single_node(subject) and not is_true_of(own, ""):
                return self._normalise_node_set(subject, (own,), outermost)
        elif kind is ValueType.BOOLEAN or (kind is ValueType.NUMBER and isinstance(constant, str)):
            return self._make_opaque(whole, outermost)
        text = self._make_text(subject, outermost)
        return Atom(
            text, kind is ValueType.NUMBER, sign, constant, self._find_implied(whole, outermost)
        )

    def _make_opaque(self, expression: Expression, outermost: bool) -> Formula:
        return Opaque(
            self._make_text(expression, outermost), self._find_implied(expression, outermost)
        )

    def _make_text(self, expression: Expression, outermost: bool) -> str:
        # A relative path has another meaning in a predicate; a variable has not.
        free = outermost or isinstance(expression, tree.Variable)
        return f"{'' if free else 'in '}{canonical_text(expression, self._namespaces)}"

    def _find_implied(self, expression: Expression, outermost: bool) -> tuple[Formula, ...]:
        return tuple(
            needed
            for each in outermost_node_sets(expression)
            if each is not expression and truth_if_empty(expression, each) is False
            if not isinstance(needed := self._normalise_node_set(each, (), outermost), Opaque)
        )

    def _normalise_node_set(
        self, node_set: Expression, also: tuple[Formula, ...], outermost: bool
    ) -> Formula:
        match node_set:
            case tree.Chain(operands=operands):
                return combine(
                    "or", [self._normalise_node_set(each, also, outermost) for each in operands]
                )
            case tree.Filter(primary=primary, predicates=predicates) if not any(
                map(is_positional, predicates)
            ):
                inner = tuple(self.normalise(each) for each in predicates)
                return self._normalise_node_set(primary, (*inner, *also), outermost)
            case tree.Path(start=PathStart() as start, steps=steps):
                found = self._normalise_steps(start, steps, also, outermost)
                if found is not None:
                    return found
        text = self._make_text(node_set, outermost)
        return Opaque(f"{text} {also!r}" if also else text)

    def _normalise_steps(
        self, start: PathStart, steps: tuple[Step, ...], also: tuple[Formula, ...], outermost: bool
    ) -> Formula | None:
        branches: list[PathStep] = []
        if start is PathStart.CONTEXT and outermost:
            start, branches = PathStart.DOCUMENT, [_ROOT_ELEMENT]
        here: list[Formula] = []
        descendant = False
        for step in steps:
            if step.axis is Axis.SELF and step.test == tree.ANY_NODE:
                if descendant or any(map(is_positional, step.predicates)):
                    return None
                predicates = [self.normalise(each) for each in step.predicates]
                if branches:
                    branches[-1] = _with_predicates(branches[-1], predicates)
                elif start is PathStart.CONTEXT:
                    here += predicates
                elif predicates:
                    return None
            elif step.axis is Axis.DESCENDANT_OR_SELF:
                if step.test != tree.ANY_NODE or step.predicates:
                    return None
                descendant = True
            elif step.axis in (Axis.CHILD, Axis.ATTRIBUTE, Axis.DESCENDANT):
                ordered = any(map(is_positional, step.predicates))
                if ordered and step.axis is Axis.DESCENDANT:
                    return None
                branches.append(self._normalise_step(step, descendant, ordered))
                descendant = False
            else:
                return None
        if descendant:
            return None
        if not branches:
            # The context node, or the document's root, which always exists.
            return (
                combine("and", [*here, *also]) if start is PathStart.CONTEXT or not also else None
            )
        branches[-1] = _with_predicates(branches[-1], list(also))
        if any(FALSE in each.predicates for each in branches):
            return FALSE
        return combine("and", [*here, Exists(start, tuple(branches))])

    def _normalise_step(self, step: Step, descendant: bool, ordered: bool) -> PathStep:
        kind, namespace, local = self._label_of(step)
        texts = (canonical_text(each, self._namespaces) for each in step.predicates)
        branch = PathStep(
            descendant or step.axis is Axis.DESCENDANT,
            kind,
            namespace,
            local,
            positional_text="".join(f"[{text}]" for text in texts) if ordered else "",
        )
        return _with_predicates(
            branch, [self.normalise(p) for p in step.predicates if not is_positional(p)]
        )

    def _label_of(self, step: Step) -> tuple[LabelKind | None, str | None, str | None]:
        test, attribute = step.test, step.axis is Axis.ATTRIBUTE
        if isinstance(test, tree.NameTest):
            kind = LabelKind.ATTRIBUTE if attribute else LabelKind.ELEMENT
            if test.prefix is not None:
                return kind, self._namespaces[test.prefix], test.local
            return kind, None if test.local is None else "", test.local
        if test.kind == "node":
            return LabelKind.ATTRIBUTE if attribute else None, None, None
        if test.kind == "text":
            return LabelKind.TEXT, None, None
        # Comments and processing instructions get a name that no element can have.
        return None, f"{test.kind}()", test.target


def _with_predicates(branch: PathStep, more: list[Formula]) -> PathStep:
    predicates = combine("and", [*branch.predicates, *more])
    return attrs.evolve(branch, predicates=conjuncts(predicates))


def _is_single_node(node_set: Expression) -> bool:
    """True if it has at most one node: the context, its attribute, or the root element's."""
    match node_set:
        case tree.Path(start=PathStart() as start, steps=steps):
            for place, step in enumerate(steps):
                only = (
                    step.axis is Axis.SELF
                    or (
                        step.axis is Axis.ATTRIBUTE
                        and isinstance(step.test, tree.NameTest)
                        and step.test.local is not None
                    )
                    or (
                        step.axis is Axis.CHILD
                        and isinstance(step.test, tree.NameTest)
                        and place == 0
                        and start is not PathStart.CONTEXT
                    )
                )
                if not only:
                    return False
            return True
    return False


_SYMMETRIC = frozenset({"=", "!=", "and", "or", "|"})


def canonical_text(expression: tree.Expression, namespaces: Mapping[str, str]) -> str:
    """Return a text in parentheses, with resolved prefixes and sorted symmetric operands."""

    def of(each: tree.Expression) -> str:
        return canonical_text(each, namespaces)

    match expression:
        case tree.Path(start=start, steps=steps):
            begin = start.value if isinstance(start, tree.PathStart) else of(start)
            return f"(path {' '.join([begin, *(canonical_step(s, namespaces) for s in steps)])})"
        case tree.Filter(primary=primary, predicates=predicates):
            return f"(filter {' '.join(map(of, (primary, *predicates)))})"
        case tree.Number(value=number):
            return repr(number)
        case tree.Literal(value=text):
            return repr(text)
        case tree.Variable(name=name):
            return f"${name}"
        case tree.FunctionCall(name=name, arguments=arguments):
            return f"({' '.join([name, *map(of, arguments)])})"
        case tree.Negation(operand=operand, signs=signs):
            return f"({'negative' if signs % 2 else 'number'} {of(operand)})"
        case tree.Binary(operator=sign, left=left, right=right):
            return _joined(sign, [of(left), of(right)])
        case tree.Chain(operator=sign, operands=operands):
            return _joined(sign, list(map(of, operands)))


def canonical_step(step: tree.Step, namespaces: Mapping[str, str]) -> str:
    predicates = "".join(f"[{canonical_text(each, namespaces)}]" for each in step.predicates)
    return f"{step.axis.value}::{_test_text(step.test, namespaces)}{predicates}"


def _joined(sign: str, operands: list[str]) -> str:
    return f"({' '.join([sign, *(sorted(operands) if sign in _SYMMETRIC else operands)])})"


def _test_text(test: tree.NodeTest, namespaces: Mapping[str, str]) -> str:
    if isinstance(test, tree.KindTest):
        return f"{test.kind}({'' if test.target is None else repr(test.target)})"
    if test.prefix is not None:
        return f"{{{namespaces[test.prefix]}}}{test.local or '*'}"
    return test.local or "*"
