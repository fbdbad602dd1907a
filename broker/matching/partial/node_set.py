"""Node-sets on a shape: nodes with the conditions of their membership."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.matching.partial import function_library as library
from broker.matching.partial.axis import (
    may_select_omitted_nodes,
    omits_nodes,
    passes_node_test,
    walk_axis,
)
from broker.matching.partial.formula import FALSE, TRUE, Formula, all_of, any_of, is_decided, negate
from broker.matching.partial.guarded_value import MAX_CASES, TOO_MANY_CASES
from broker.matching.partial.source import Constant, Source, computed, source_of
from broker.matching.partial.work_budget import Undecidable, WorkBudget
from broker.matching.query import tree
from broker.matching.query.tree import Axis, NameTest, Step
from broker.matching.query.value_type import is_positional
from broker.matching.shape.tree import Node, NodeKind

#: Members in document order; no condition is FALSE.
NodeSet: TypeAlias = list[tuple[Node, Formula]]


# Not frozen, for speed: one is created for each node and predicate.
@attrs.define(eq=False)
class Context:
    """The node, and the values of `position()` and `last()`, None if they depend on values."""

    node: Node
    position: int | None = None
    last: int | None = None


class ElementsByName:
    def __init__(self) -> None:
        self._by_root: dict[Node, dict[tuple[str | None, str], list[Node]]] = {}

    def find(self, root: Node, namespace: str | None, local: str) -> list[Node]:
        names = self._by_root.get(root)
        if names is None:
            names = self._by_root[root] = {}
            for node in walk_axis(Axis.DESCENDANT, root):
                if node.kind is NodeKind.ELEMENT:
                    names.setdefault((node.namespace, node.local), []).append(node)
        return names.get((namespace, local), [])


#: Evaluates a predicate in a context.
PredicateFunction: TypeAlias = Callable[[Context], Formula]


class PathWalker:
    """Follows location paths; `predicate_function` prepares a predicate for evaluation.

    Raises `TooExpensive`; `Undecidable` if a path may select nodes that trees lack.
    """

    def __init__(
        self,
        namespaces: Mapping[str, str],
        condition: Callable[[tree.Expression], PredicateFunction],
        work: WorkBudget,
        names: ElementsByName,
    ) -> None:
        self._steps_from: dict[tuple[int, Axis, Node], NodeSet] = {}
        self._namespaces = namespaces
        self._predicate_function = condition
        self._work = work
        self._elements_by_name = names

    def follow_steps(self, members: NodeSet, steps: tuple[Step, ...]) -> NodeSet:
        if len(steps) == 1:
            return self._follow_step(members, steps[0], None)
        place = 0
        while place < len(steps) and members:
            step = steps[place]
            if tree.is_any_descendant(step) and place + 1 < len(steps):
                following = steps[place + 1]
                if following.axis is Axis.CHILD and not any(
                    map(is_positional, following.predicates)
                ):
                    # `//a` as one descendant step, without the nodes in between.
                    step = attrs.evolve(following, axis=Axis.DESCENDANT)
                    place += 1
            place += 1
            members = self._follow_step(members, step, steps[place] if place < len(steps) else None)
        return members

    def filter_members(self, members: NodeSet, predicates: tuple[tree.Expression, ...]) -> NodeSet:
        for predicate in predicates:
            known = all(condition is TRUE for _, condition in members)
            size = len(members)
            holds = self._predicate_function(predicate)
            passing = []
            for place, (node, condition) in enumerate(members, 1):
                passes = holds(Context(node, place, size) if known else Context(node))
                both = passes if condition is TRUE else self._conjunction(condition, passes)
                if both is not FALSE:
                    passing.append((node, both))
            members = passing
        return members

    def _conjunction(self, one: Formula, other: Formula) -> Formula:
        # Most members are unconditional.
        if one is TRUE:
            return other
        return one if other is TRUE else all_of(self._work.spend_on_join((one, other)))

    def _follow_step(self, members: NodeSet, step: Step, following: Step | None) -> NodeSet:
        # All members are in one document.
        if members and may_select_omitted_nodes(step, following) and omits_nodes(members[0][0]):
            raise Undecidable("comments and instructions of a document are not in its tree")
        if len(members) == 1 and step.axis not in tree.REVERSE_AXES:
            # From one start node, the result is in order and without duplicates.
            origin, condition = members[0]
            found = self._step_from(origin, step)
            if condition is TRUE:
                return found
            return [(node, self._conjunction(condition, inner)) for node, inner in found]
        reached: dict[Node, list[Formula]] = {}
        for origin, condition in _outermost_members(members, step):
            nodes: NodeSet = [(node, TRUE) for node in self._select_nodes(step, origin)]
            for node, inner in self.filter_members(nodes, step.predicates):
                reached.setdefault(node, []).append(self._conjunction(condition, inner))
        return sort_members(
            {
                node: ways[0] if len(ways) == 1 else any_of(self._work.spend_on_join(ways))
                for node, ways in reached.items()
            }
        )

    def _step_from(self, origin: Node, step: Step) -> NodeSet:
        """Follow a step from one node; cached, as many nodes share a parent."""
        # Steps differ by position; for `//a` the axis differs too.
        key = (step.position, step.axis, origin)
        found = self._steps_from.get(key)
        if found is None:
            found = [(node, TRUE) for node in self._select_nodes(step, origin)]
            if step.predicates:
                found = self.filter_members(found, step.predicates)
            self._steps_from[key] = found
        else:
            self._work.spend()
        return found

    def _select_nodes(self, step: Step, origin: Node) -> list[Node]:
        """Return the nodes on the step's axis that pass its node test, in axis order.

        Nodes behind the position of a numeric first predicate may be missing.
        """
        axis, test = step.axis, step.test
        namespace = None
        if isinstance(test, NameTest):
            if test.prefix is not None:
                namespace = self._namespaces[test.prefix]
            local = test.local
            if local is not None:
                if axis is Axis.DESCENDANT and origin.parent is None:
                    # Most descendant steps start at the root.
                    found = self._elements_by_name.find(origin, namespace, local)
                    self._work.spend(len(found) + 1)
                    return found
                nodes = _named_candidates(axis, origin)
                if nodes is not None:
                    self._work.spend(len(nodes) + 1)
                    return [n for n in nodes if n.local == local and n.namespace == namespace]
        found = []
        self._work.spend()
        position = _selected_position(step)
        for node in walk_axis(axis, origin):
            self._work.spend()
            if passes_node_test(test, axis, node, namespace):
                found.append(node)
                if len(found) == position:
                    break
        return found


def _outermost_members(members: NodeSet, step: Step) -> NodeSet:
    if step.axis not in tree.DESCENDANT_AXES or any(map(is_positional, step.predicates)):
        return members
    found: NodeSet = []
    last = -1
    for node, condition in members:
        if condition is not TRUE:
            return members
        if node.order > last:
            found.append((node, condition))
            last = node.last
    return found


def _selected_position(step: Step) -> float | None:
    first = step.predicates[0] if step.predicates else None
    return first.value if isinstance(first, tree.Number) else None


def _named_candidates(axis: Axis, origin: Node) -> list[Node] | None:
    if axis is Axis.ATTRIBUTE:
        return origin.attributes
    # Texts are among the children, but have no names.
    return origin.children if axis is Axis.CHILD else None


def sort_members(found: Mapping[Node, Formula]) -> NodeSet:
    return sorted(found.items(), key=lambda member: member[0].order)


def string_value(node: Node, work: WorkBudget) -> Source:
    if node.kind in (NodeKind.TEXT, NodeKind.ATTRIBUTE):
        return source_of(node.value)
    texts: list[Source] = []
    _collect_texts(node, texts, work)
    texts = _merge_constants(texts)
    if len(texts) == 1:
        return texts[0]
    return computed(library.concat, *texts)


def _collect_texts(node: Node, texts: list[Source], work: WorkBudget) -> None:
    work.spend(len(node.children))
    for child in node.children:
        if child.kind is NodeKind.TEXT:
            texts.append(source_of(child.value))
        else:
            _collect_texts(child, texts, work)


def _merge_constants(texts: list[Source]) -> list[Source]:
    joined: list[Source] = []
    for are_constant, run in groupby(texts, lambda source: isinstance(source, Constant)):
        # In one call: pairwise joining would be quadratic.
        parts = list(run)
        joined += [computed(library.concat, *parts)] if are_constant else parts
    return joined


def first_member_cases(members: NodeSet, work: WorkBudget) -> list[tuple[Formula, Node | None]]:
    cases: list[tuple[Formula, Node | None]] = []
    none_before: Formula = TRUE
    for node, condition in members:
        if not is_decided(condition):
            raise Undecidable("the first node depends on an undecided condition")
        cases.append((all_of(work.spend_on_join((none_before, condition))), node))
        if condition is TRUE:
            return cases
        if len(cases) >= MAX_CASES:
            raise Undecidable(TOO_MANY_CASES)
        none_before = all_of(work.spend_on_join((none_before, negate(condition))))
    cases.append((none_before, None))
    return cases
