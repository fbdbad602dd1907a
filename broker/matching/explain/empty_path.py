"""Reasons for empty node-sets: a step without a node in the event, or a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from broker.matching.explain.probe import Probe, filter_nodes, nth_node
from broker.matching.explain.xpath_writer import NO_POSITION, XPathWriter
from broker.matching.query import tree
from broker.matching.query.tree import PathStart
from broker.matching.query.value_type import is_positional


@attrs.frozen
class RejectedNodes:
    nodes: tree.Expression
    count: int
    condition: tree.Expression


@attrs.frozen
class EmptyReason:
    note: str
    rejected: RejectedNodes | None = None


class EmptyPathAnalysis:
    """Follows node-sets step by step. All methods raise `ProbeLimitExceeded`."""

    def __init__(self, probe: Probe, writer: XPathWriter) -> None:
        self._probe = probe
        self._writer = writer

    def find_reason(self, nodes: tree.Expression) -> EmptyReason:
        match nodes:
            case tree.Path():
                return self._path(nodes)
            case tree.Filter(primary=primary, predicates=predicates):
                if not self._probe.count_nodes(primary):
                    return self.find_reason(primary)

                def narrowed(some: tuple[tree.Expression, ...]) -> tree.Expression:
                    return attrs.evolve(nodes, predicates=some) if some else primary

                return self._at_predicate(narrowed, predicates, f"({self._writer.write(primary)})")
            case tree.Chain(operands=operands):
                return EmptyReason("; ".join(self.find_reason(each).note for each in operands))
        return EmptyReason("it finds nothing")

    def iterate_conditions(
        self, nodes: tree.Path | tree.Filter
    ) -> Iterator[tuple[tree.Expression, tree.Expression]]:
        if isinstance(nodes, tree.Filter):
            for predicate in nodes.predicates:
                if not is_positional(predicate):
                    yield nth_node(nodes, 1), predicate
            return
        for place, step in enumerate(nodes.steps, 1):
            for predicate in step.predicates:
                if not is_positional(predicate):
                    yield nth_node(_nodes_reaching_end(nodes, place), 1), predicate

    def _path(self, path: tree.Path) -> EmptyReason:
        start, steps = path.start, path.steps
        if not isinstance(start, PathStart) and not self._probe.count_nodes(start):
            return self.find_reason(start)
        for place, step in enumerate(steps):
            if tree.is_any_descendant(step) and place + 1 < len(steps):
                continue
            if not self._probe.count_nodes(_with_predicates(path, place, ())):
                return EmptyReason(self._describe_missing_step(path, place))
            if not self._probe.count_nodes(_with_predicates(path, place, step.predicates)):

                def narrowed(
                    some: tuple[tree.Expression, ...], place: int = place
                ) -> tree.Expression:
                    return _with_predicates(path, place, some)

                words = self._write_beginning(_with_predicates(path, place, ()), place + 1)
                return self._at_predicate(narrowed, step.predicates, words)
        return EmptyReason("it finds nothing")

    def _describe_missing_step(self, path: tree.Path, place: int) -> str:
        owner = "the event" if isinstance(path.start, PathStart) else "it"
        text = (
            f"{owner} has no {self._write_beginning(_with_predicates(path, place, ()), place + 1)}"
        )
        while place and tree.is_any_descendant(path.steps[place - 1]):
            place -= 1
        return f"{text}, though it has {self._write_beginning(path, place)}" if place else text

    def _at_predicate(
        self,
        narrowed: Callable[[tuple[tree.Expression, ...]], tree.Expression],
        predicates: tuple[tree.Expression, ...],
        words: str,
    ) -> EmptyReason:
        """`narrowed` returns the nodes that pass some predicates; none passes all of them."""
        for place, predicate in enumerate(predicates):
            if self._probe.count_nodes(narrowed(predicates[: place + 1])):
                continue
            before = narrowed(predicates[:place])
            count = self._probe.count_nodes(before)
            written = self._writer.write_predicates((predicate,))
            passed = self._writer.write_predicates(predicates[:place])
            there = f"there {'is' if count == 1 else 'are'} {count} {words}{passed}"
            if is_positional(predicate):
                return EmptyReason(f"{there}, but none at {written}")
            left, number, condition = self._apply_conditions(before, count, predicate)
            fitting = f", of which {number} fit{'s' if number == 1 else ''} so far"
            none = f", but none with {self._writer.write_predicates((condition,))}"
            note = there + (fitting if number < count else "") + none
            return EmptyReason(note, RejectedNodes(left, number, predicate))
        return EmptyReason("it finds nothing")

    def _apply_conditions(
        self, nodes: tree.Expression, count: int, predicate: tree.Expression
    ) -> tuple[tree.Expression, int, tree.Expression]:
        """Return the nodes that pass most of an `and`, their number, and the condition that rejects
        them."""
        conditions: tuple[tree.Expression, ...] = (predicate,)
        if isinstance(predicate, tree.Chain) and predicate.operator == "and":
            conditions = predicate.operands
        for condition in conditions:
            further = filter_nodes(nodes, condition)
            left = self._probe.count_nodes(further)
            if not left:
                return nodes, count, condition
            nodes, count = further, left
        return nodes, count, predicate

    def _write_beginning(self, path: tree.Path, steps: int) -> str:
        start = path.start if isinstance(path.start, PathStart) else PathStart.CONTEXT
        return self._writer.write(tree.Path(NO_POSITION, start, path.steps[:steps]))


def _with_predicates(
    path: tree.Path, place: int, predicates: tuple[tree.Expression, ...]
) -> tree.Path:
    step = attrs.evolve(path.steps[place], predicates=predicates)
    return attrs.evolve(path, steps=(*path.steps[:place], step))


def _nodes_reaching_end(path: tree.Path, place: int) -> tree.Expression:
    """Return the nodes after so many steps from which the rest of the path finds something."""
    reached = attrs.evolve(path, steps=path.steps[:place])
    rest = path.steps[place:]
    return (
        filter_nodes(reached, tree.Path(NO_POSITION, PathStart.CONTEXT, rest)) if rest else reached
    )
