"""Reasons for empty node-sets: a step without a node in the event, or a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs

from broker.matching.explain.access_method import truncate
from broker.matching.explain.probe import Probe, ProbeLimitExceeded
from broker.matching.explain.xpath_writer import NO_POSITION, XPathWriter
from broker.matching.query import tree
from broker.matching.query.namespace_advice import advise_binding
from broker.matching.query.namespaces import PREDEFINED_PREFIXES
from broker.matching.query.tree import Axis, NameTest, PathStart
from broker.matching.query.value_type import is_positional
from broker.matching.shape.tree import Node


@attrs.frozen
class EmptyReason:
    """The reason in words, and the nodes that a condition rejects."""

    note: str
    rejected: Sequence[Node] = ()
    condition: tree.Expression | None = None


class EmptyPathAnalysis:
    """Follows node-sets step by step, from `node`. All methods raise `ProbeLimitExceeded`."""

    def __init__(self, probe: Probe, writer: XPathWriter) -> None:
        self._probe = probe
        self._writer = writer

    def find_reason(self, nodes: tree.Expression, node: Node | None) -> EmptyReason:
        match nodes:
            case tree.Path():
                return self._path(nodes, node)
            case tree.Filter(primary=primary, predicates=predicates):
                if not self._probe.list_nodes(primary, node):
                    return self.find_reason(primary, node)

                def narrowed(some: tuple[tree.Expression, ...]) -> list[Node]:
                    chosen = attrs.evolve(nodes, predicates=some) if some else primary
                    return self._probe.list_nodes(chosen, node)

                return self._at_predicate(narrowed, predicates, f"({self._writer.write(primary)})")
            case tree.Chain(operands=operands):
                return EmptyReason(
                    "; ".join(self.find_reason(each, node).note for each in operands)
                )
        return EmptyReason("it finds nothing")

    def iterate_conditions(
        self, nodes: tree.Path | tree.Filter, node: Node | None
    ) -> Iterator[tuple[Node, tree.Expression]]:
        if isinstance(nodes, tree.Filter):
            for predicate in nodes.predicates:
                if not is_positional(predicate):
                    yield self._probe.list_nodes(nodes, node)[0], predicate
            return
        for place, step in enumerate(nodes.steps, 1):
            for predicate in step.predicates:
                if not is_positional(predicate):
                    yield self._find_reaching_end(nodes, place, node), predicate

    def _find_reaching_end(self, path: tree.Path, place: int, node: Node | None) -> Node:
        """Return a node after so many steps from which the rest of the path finds something."""
        rest = tree.Path(NO_POSITION, PathStart.CONTEXT, path.steps[place:])
        reached = self._probe.list_nodes(attrs.evolve(path, steps=path.steps[:place]), node)
        return next(each for each in reached if self._probe.list_nodes(rest, each))

    def _path(self, path: tree.Path, node: Node | None) -> EmptyReason:
        start, steps = path.start, path.steps
        if not isinstance(start, PathStart) and not self._probe.list_nodes(start, node):
            return self.find_reason(start, node)
        for place, step in enumerate(steps):
            if tree.is_any_descendant(step) and place + 1 < len(steps):
                continue

            def narrowed(some: tuple[tree.Expression, ...], place: int = place) -> list[Node]:
                return self._probe.list_nodes(_with_predicates(path, place, some), node)

            if not narrowed(()):
                return EmptyReason(self._describe_missing_step(path, place))
            if not narrowed(step.predicates):
                words = self._write_beginning(_with_predicates(path, place, ()), place + 1)
                return self._at_predicate(narrowed, step.predicates, words)
        return EmptyReason("it finds nothing")

    def _describe_missing_step(self, path: tree.Path, place: int) -> str:
        owner = "the event" if isinstance(path.start, PathStart) else "it"
        text = (
            f"{owner} has no {self._write_beginning(_with_predicates(path, place, ()), place + 1)}"
        )
        advice = self._advise_namespace(path.steps[place])
        if advice:
            return f"{text}; {advice}"
        while place and tree.is_any_descendant(path.steps[place - 1]):
            place -= 1
        return f"{text}, though it has {self._write_beginning(path, place)}" if place else text

    def _advise_namespace(self, step: tree.Step) -> str:
        """Return advice if the payload has elements of that name in other namespaces only."""
        test = step.test
        if (
            not isinstance(test, NameTest)
            or test.local is None
            or step.axis in (Axis.ATTRIBUTE, Axis.NAMESPACE)
        ):
            return ""
        try:
            uris = self._probe.find_namespaces(test.local)
        except ProbeLimitExceeded:
            return ""
        bindings = self._probe.namespaces
        wanted = "" if test.prefix is None else {**bindings, **PREDEFINED_PREFIXES}[test.prefix]
        if not uris or wanted in uris:
            return ""
        uri = min(uris)
        if not uri:
            return f"it has {test.local!r} in no namespace"
        advice = advise_binding(test.local, uri, bindings)
        return f"it has {test.local!r} in the namespace {truncate(uri)}: {advice}"

    def _at_predicate(
        self,
        narrowed: Callable[[tuple[tree.Expression, ...]], list[Node]],
        predicates: tuple[tree.Expression, ...],
        words: str,
    ) -> EmptyReason:
        """`narrowed` returns the nodes that pass some predicates; none passes all of them."""
        for place, predicate in enumerate(predicates):
            if narrowed(predicates[: place + 1]):
                continue
            before = narrowed(predicates[:place])
            written = self._writer.write_predicates((predicate,))
            passed = self._writer.write_predicates(predicates[:place])
            there = f"there {'is' if len(before) == 1 else 'are'} {len(before)} {words}{passed}"
            if is_positional(predicate):
                return EmptyReason(f"{there}, but none at {written}")
            left, condition = self._apply_conditions(before, predicate)
            fitting = f", of which {len(left)} fit{'s' if len(left) == 1 else ''} so far"
            none = f", but none with {self._writer.write_predicates((condition,))}"
            note = there + (fitting if len(left) < len(before) else "") + none
            return EmptyReason(note, left, predicate)
        return EmptyReason("it finds nothing")

    def _apply_conditions(
        self, nodes: list[Node], predicate: tree.Expression
    ) -> tuple[list[Node], tree.Expression]:
        """Return the nodes that pass most of an `and`, and the condition that rejects them."""
        conditions: tuple[tree.Expression, ...] = (predicate,)
        if isinstance(predicate, tree.Chain) and predicate.operator == "and":
            conditions = predicate.operands
        for condition in conditions:
            further = [each for each in nodes if self._probe.evaluate_boolean(condition, each)]
            if not further:
                return nodes, condition
            nodes = further
        return nodes, predicate

    def _write_beginning(self, path: tree.Path, steps: int) -> str:
        # Without the start node inside a predicate.
        start = path.start if isinstance(path.start, PathStart) else PathStart.CONTEXT
        return self._writer.write(tree.Path(NO_POSITION, start, path.steps[:steps]))


def _with_predicates(
    path: tree.Path, place: int, predicates: tuple[tree.Expression, ...]
) -> tree.Path:
    step = attrs.evolve(path.steps[place], predicates=predicates)
    return attrs.evolve(path, steps=(*path.steps[:place], step))
