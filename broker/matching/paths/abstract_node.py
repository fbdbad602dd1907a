"""Where a location path leads, as far as names tell.

`Reached` follows a path step by step. What an axis leaves uncertain is weakened to what is sure:
behind `following::` or `ancestor::` a node may be anywhere in its document.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.matching.paths.requirement import ALWAYS, Requirements, conjunction, occurrence
from broker.matching.paths.pattern import Document, LabelKind, Pattern, PatternStep
from broker.matching.query.tree import Axis, KindTest, NodeTest, Step

_ANYWHERE = frozenset({Axis.ANCESTOR, Axis.ANCESTOR_OR_SELF, Axis.FOLLOWING, Axis.PRECEDING})
_SIBLINGS = frozenset({Axis.FOLLOWING_SIBLING, Axis.PRECEDING_SIBLING})


@attrs.frozen(slots=True)
class Reached:
    """A node that a path has reached.

    `floating`: it is the node that `steps` lead to, or any descendant of it. `uncertain`: of the
    last step it is not known whether it is an element. `required`: what else must occur. `exact`:
    such a node exists exactly if the steps occur and what is required does. `lost`: nothing about
    further steps can be told.
    """

    document: Document
    steps: tuple[PatternStep, ...] = ()
    floating: bool = False
    uncertain: bool = False
    required: Requirements = ALWAYS
    exact: bool = True
    lost: bool = False

    def requirements(self) -> Requirements:
        """What must occur for this node to exist."""
        steps = self.steps[:-1] if self.uncertain else self.steps
        own = occurrence(Pattern(self.document, steps)) if steps else ALWAYS
        both = conjunction(self.required, own)
        return both if self.exact else both.inexact()

    def inward(self) -> Reached:
        """The same node as the context of a predicate, whose needs are counted on their own."""
        return attrs.evolve(self, required=ALWAYS)

    def needing(self, more: Requirements, *, exact: bool) -> Reached:
        """The same node, with what a predicate requires of it."""
        required = conjunction(self.required, more)
        return attrs.evolve(self, required=required, exact=self.exact and exact)

    def step(self, step: Step, namespaces: Mapping[str, str]) -> Reached | None:
        """The node behind one more step, its predicates left out; None if there never is one."""
        if self.lost:
            return self
        # With a predicate behind it, a step decides less than its pattern says.
        here = self if self.required == ALWAYS else attrs.evolve(self, exact=False)
        test, axis = _test(step.test, step.axis, namespaces), step.axis
        if axis is Axis.SELF:
            return here._narrowed(test)
        if axis is Axis.CHILD:
            return here._below(test)
        if axis is Axis.DESCENDANT:
            return attrs.evolve(here, floating=True)._below(test)
        if axis is Axis.ATTRIBUTE:
            return None if test.kind is not LabelKind.ATTRIBUTE else here._below(test)
        if axis is Axis.DESCENDANT_OR_SELF:
            if test.any_node:
                return attrs.evolve(here, floating=True)
            return (here._anywhere() if here.steps else attrs.evolve(here, floating=True))._below(
                test
            )
        if axis is Axis.PARENT:
            above = here._above()
            return None if above is None else above._narrowed(test)
        if axis in _SIBLINGS:
            above = here._above()
            return None if above is None else above._below(test)
        if axis in _ANYWHERE:
            anywhere = here._anywhere()
            return anywhere if test.uncertain else anywhere._below(test)
        return attrs.evolve(here._anywhere(), lost=True)

    def _below(self, test: _Test) -> Reached | None:
        if self.steps and not self.uncertain and self.steps[-1].kind is not LabelKind.ELEMENT:
            return None
        return attrs.evolve(
            self,
            steps=(*self.steps, test.step(self.floating)),
            floating=False,
            uncertain=test.uncertain,
            exact=self.exact and not test.uncertain,
        )

    def _narrowed(self, test: _Test) -> Reached | None:
        if test.any_node:
            return self
        if self.floating:
            anywhere = self._anywhere() if self.steps else self
            return anywhere if test.uncertain else anywhere._below(test)
        if not self.steps:
            return None
        if test.uncertain:
            return attrs.evolve(self, exact=False)
        last = self.steps[-1]
        if self.uncertain:
            last = attrs.evolve(test.step(last.descendant), descendant=last.descendant)
        else:
            both = _common(last, test)
            if both is None:
                return None
            last = both
        return attrs.evolve(self, steps=(*self.steps[:-1], last), uncertain=False)

    def _above(self) -> Reached | None:
        if self.floating or (self.steps and self.steps[-1].descendant):
            return self._anywhere()
        if not self.steps:
            return None
        return attrs.evolve(
            self,
            steps=self.steps[:-1],
            uncertain=False,
            required=self.requirements().inexact(),
            exact=False,
        )

    def _anywhere(self) -> Reached:
        return attrs.evolve(
            self,
            steps=(),
            floating=True,
            uncertain=False,
            required=self.requirements().inexact(),
            exact=False,
        )


@attrs.frozen(slots=True)
class _Test:
    """A node test with its prefix resolved. `uncertain`: what passes need not be an element."""

    kind: LabelKind
    namespace: str | None = None
    local: str | None = None
    uncertain: bool = False
    any_node: bool = False

    def step(self, descendant: bool) -> PatternStep:
        return PatternStep(descendant, self.kind, self.namespace, self.local)


def _test(test: NodeTest, axis: Axis, namespaces: Mapping[str, str]) -> _Test:
    attribute = axis is Axis.ATTRIBUTE
    if isinstance(test, KindTest):
        if test.kind == "text":
            return _Test(LabelKind.TEXT)
        any_node = test.kind == "node"
        if attribute:
            return _Test(LabelKind.ATTRIBUTE if any_node else LabelKind.TEXT)
        return _Test(LabelKind.ELEMENT, uncertain=True, any_node=any_node)
    kind = LabelKind.ATTRIBUTE if attribute else LabelKind.ELEMENT
    if test.prefix is not None:
        return _Test(kind, namespaces[test.prefix], test.local)
    return _Test(kind, None if test.local is None else "", test.local)


def _common(step: PatternStep, test: _Test) -> PatternStep | None:
    """The step that passes the test too; None if nothing does."""
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
