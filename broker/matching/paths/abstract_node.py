"""Abstract interpretation of location paths over node names.

Uncertain axes weaken a node: behind `following::` it may be anywhere in its document.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.matching.paths.pattern import (
    ALWAYS,
    DocumentRole,
    LabelKind,
    Pattern,
    PatternStep,
    Requirements,
    require_both,
    require_pattern,
)
from broker.matching.query.tree import SIBLING_AXES, Axis, KindTest, NodeTest, Step

_ANYWHERE = frozenset({Axis.ANCESTOR, Axis.ANCESTOR_OR_SELF, Axis.FOLLOWING, Axis.PRECEDING})


@attrs.frozen(slots=True)
class AbstractNode:
    """Abstraction of the nodes that a path selects.

    - `or_descendant`: the node at `steps`, or any descendant of it.
    - `maybe_not_element`: the last step may select another kind of node than elements.
    - `required`: other patterns that must occur.
    - `exact`: such a node exists if and only if the steps and `required` occur.
    - `is_unknown`: further steps have no known effect.
    """

    document: DocumentRole
    steps: tuple[PatternStep, ...] = ()
    or_descendant: bool = False
    maybe_not_element: bool = False
    required: Requirements = ALWAYS
    exact: bool = True
    is_unknown: bool = False

    def existence_requirements(self) -> Requirements:
        steps = self.steps[:-1] if self.maybe_not_element else self.steps
        own = require_pattern(Pattern(self.document, steps)) if steps else ALWAYS
        both = require_both(self.required, own)
        return both if self.exact else both.inexact()

    def as_context(self) -> AbstractNode:
        """The same node as a predicate's context, which collects its own requirements."""
        return attrs.evolve(self, required=ALWAYS)

    def with_requirement(self, more: Requirements, *, exact: bool) -> AbstractNode:
        required = require_both(self.required, more)
        return attrs.evolve(self, required=required, exact=self.exact and exact)

    def follow_step(self, step: Step, namespaces: Mapping[str, str]) -> AbstractNode | None:
        """The node behind one more step without its predicates; None if there is none."""
        if self.is_unknown:
            return self
        # Behind a predicate, a step decides less than its pattern.
        here = self if self.required == ALWAYS else attrs.evolve(self, exact=False)
        test, axis = _resolve_test(step.test, step.axis, namespaces), step.axis
        if axis is Axis.SELF:
            return here._self(test)
        if axis is Axis.CHILD:
            return here._child(test)
        if axis is Axis.DESCENDANT:
            return attrs.evolve(here, or_descendant=True)._child(test)
        if axis is Axis.ATTRIBUTE:
            return None if test.kind is not LabelKind.ATTRIBUTE else here._child(test)
        if axis is Axis.DESCENDANT_OR_SELF:
            if test.is_any_node:
                return attrs.evolve(here, or_descendant=True)
            return (
                here._any_node() if here.steps else attrs.evolve(here, or_descendant=True)
            )._child(test)
        if axis is Axis.PARENT:
            above = here._parent()
            return None if above is None else above._self(test)
        if axis in SIBLING_AXES:
            above = here._parent()
            return None if above is None else above._child(test)
        if axis in _ANYWHERE:
            anywhere = here._any_node()
            return anywhere if test.maybe_not_element else anywhere._child(test)
        return attrs.evolve(here._any_node(), is_unknown=True)

    def _child(self, test: _ResolvedTest) -> AbstractNode | None:
        if (
            self.steps
            and not self.maybe_not_element
            and self.steps[-1].kind is not LabelKind.ELEMENT
        ):
            return None
        return attrs.evolve(
            self,
            steps=(*self.steps, test.pattern_step(self.or_descendant)),
            or_descendant=False,
            maybe_not_element=test.maybe_not_element,
            exact=self.exact and not test.maybe_not_element,
        )

    def _self(self, test: _ResolvedTest) -> AbstractNode | None:
        if test.is_any_node:
            return self
        if self.or_descendant:
            anywhere = self._any_node() if self.steps else self
            return anywhere if test.maybe_not_element else anywhere._child(test)
        if not self.steps:
            return None
        if test.maybe_not_element:
            return attrs.evolve(self, exact=False)
        last = self.steps[-1]
        if self.maybe_not_element:
            last = attrs.evolve(test.pattern_step(last.descendant), descendant=last.descendant)
        else:
            both = _intersect(last, test)
            if both is None:
                return None
            last = both
        return attrs.evolve(self, steps=(*self.steps[:-1], last), maybe_not_element=False)

    def _parent(self) -> AbstractNode | None:
        if self.or_descendant or (self.steps and self.steps[-1].descendant):
            return self._any_node()
        if not self.steps:
            return None
        return attrs.evolve(
            self,
            steps=self.steps[:-1],
            maybe_not_element=False,
            required=self.existence_requirements().inexact(),
            exact=False,
        )

    def _any_node(self) -> AbstractNode:
        return attrs.evolve(
            self,
            steps=(),
            or_descendant=True,
            maybe_not_element=False,
            required=self.existence_requirements().inexact(),
            exact=False,
        )


@attrs.frozen(slots=True)
class _ResolvedTest:
    """A node test with its prefix resolved; `maybe_not_element`: other kinds may pass."""

    kind: LabelKind
    namespace: str | None = None
    local: str | None = None
    maybe_not_element: bool = False
    is_any_node: bool = False

    def pattern_step(self, descendant: bool) -> PatternStep:
        return PatternStep(descendant, self.kind, self.namespace, self.local)


def _resolve_test(test: NodeTest, axis: Axis, namespaces: Mapping[str, str]) -> _ResolvedTest:
    attribute = axis is Axis.ATTRIBUTE
    if isinstance(test, KindTest):
        if test.kind == "text":
            return _ResolvedTest(LabelKind.TEXT)
        any_node = test.kind == "node"
        if attribute:
            return _ResolvedTest(LabelKind.ATTRIBUTE if any_node else LabelKind.TEXT)
        return _ResolvedTest(LabelKind.ELEMENT, maybe_not_element=True, is_any_node=any_node)
    kind = LabelKind.ATTRIBUTE if attribute else LabelKind.ELEMENT
    if test.prefix is not None:
        return _ResolvedTest(kind, namespaces[test.prefix], test.local)
    return _ResolvedTest(kind, None if test.local is None else "", test.local)


def _intersect(step: PatternStep, test: _ResolvedTest) -> PatternStep | None:
    if step.kind is not test.kind:
        return None
    for mine, theirs in ((step.namespace, test.namespace), (step.local, test.local)):
        if mine is not None and theirs is not None and mine != theirs:
            return None
    return PatternStep(
        step.descendant,
        step.kind,
        test.namespace if step.namespace is None else step.namespace,
        test.local if step.local is None else step.local,
    )
