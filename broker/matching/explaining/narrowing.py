"""Where a path loses its last node: at a step that the event has not, or at a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from broker.matching.explaining.probing import Probe, nth, those_with
from broker.matching.explaining.wording import NOWHERE, Wording, is_any_descendant
from broker.matching.partial.node_set import is_positional
from broker.matching.query import tree
from broker.matching.query.tree import Origin


@attrs.frozen
class Refused:
    """Nodes that a predicate refuses: `nodes` is a node-set of `count`."""

    nodes: tree.Expression
    count: int
    condition: tree.Expression


@attrs.frozen
class Lost:
    """Why a node-set is empty."""

    note: str
    refused: Refused | None = None


class Narrowing:
    """Follows node-sets step by step. All methods raise `TooMuch`."""

    def __init__(self, probe: Probe, wording: Wording) -> None:
        self._probe = probe
        self._wording = wording

    def why_empty(self, nodes: tree.Expression) -> Lost:
        """Why a node-set is empty, which it is."""
        match nodes:
            case tree.Path():
                return self._path(nodes)
            case tree.Filter(primary=primary, predicates=predicates):
                if not self._probe.count(primary):
                    return self.why_empty(primary)

                def narrowed(some: tuple[tree.Expression, ...]) -> tree.Expression:
                    return attrs.evolve(nodes, predicates=some) if some else primary

                return self._at_predicate(narrowed, predicates, f"({self._wording.of(primary)})")
            case tree.Chain(operands=operands):
                return Lost("; ".join(self.why_empty(each).note for each in operands))
        return Lost("it finds nothing")

    def conditions_of(
        self, nodes: tree.Path | tree.Filter
    ) -> Iterator[tuple[tree.Expression, tree.Expression]]:
        """(node, condition): the predicates of a node-set, each with a node that passed it."""
        if isinstance(nodes, tree.Filter):
            for predicate in nodes.predicates:
                if not is_positional(predicate):
                    yield nth(nodes, 1), predicate
            return
        for place, step in enumerate(nodes.steps, 1):
            for predicate in step.predicates:
                if not is_positional(predicate):
                    yield nth(_leading(nodes, place), 1), predicate

    def _path(self, path: tree.Path) -> Lost:
        start, steps = path.start, path.steps
        if not isinstance(start, Origin) and not self._probe.count(start):
            return self.why_empty(start)
        for place, step in enumerate(steps):
            if is_any_descendant(step) and place + 1 < len(steps):
                continue
            if not self._probe.count(_with(path, place, ())):
                return Lost(self._missing(path, place))
            if not self._probe.count(_with(path, place, step.predicates)):

                def narrowed(
                    some: tuple[tree.Expression, ...], place: int = place
                ) -> tree.Expression:
                    return _with(path, place, some)

                words = self._words(_with(path, place, ()), place + 1)
                return self._at_predicate(narrowed, step.predicates, words)
        return Lost("it finds nothing")

    def _missing(self, path: tree.Path, place: int) -> str:
        who = "the event" if isinstance(path.start, Origin) else "it"
        text = f"{who} has no {self._words(_with(path, place, ()), place + 1)}"
        while place and is_any_descendant(path.steps[place - 1]):
            place -= 1
        return f"{text}, though it has {self._words(path, place)}" if place else text

    def _at_predicate(
        self,
        narrowed: Callable[[tuple[tree.Expression, ...]], tree.Expression],
        predicates: tuple[tree.Expression, ...],
        words: str,
    ) -> Lost:
        """`narrowed` gives the nodes that pass some of the predicates; none passes all."""
        for place, predicate in enumerate(predicates):
            if self._probe.count(narrowed(predicates[: place + 1])):
                continue
            before = narrowed(predicates[:place])
            count = self._probe.count(before)
            written = self._wording.predicates((predicate,))
            passed = self._wording.predicates(predicates[:place])
            there = f"there {'is' if count == 1 else 'are'} {count} {words}{passed}"
            if is_positional(predicate):
                return Lost(f"{there}, but none at {written}")
            left, number, condition = self._fitting(before, count, predicate)
            fitting = f", of which {number} fit{'s' if number == 1 else ''} so far"
            none = f", but none with {self._wording.predicates((condition,))}"
            note = there + (fitting if number < count else "") + none
            return Lost(note, Refused(left, number, predicate))
        return Lost("it finds nothing")

    def _fitting(
        self, nodes: tree.Expression, count: int, predicate: tree.Expression
    ) -> tuple[tree.Expression, int, tree.Expression]:
        """The nodes that get furthest in an `and`, how many, and the condition that ends it."""
        conditions: tuple[tree.Expression, ...] = (predicate,)
        if isinstance(predicate, tree.Chain) and predicate.operator == "and":
            conditions = predicate.operands
        for condition in conditions:
            further = those_with(nodes, condition)
            left = self._probe.count(further)
            if not left:
                return nodes, count, condition
            nodes, count = further, left
        return nodes, count, predicate

    def _words(self, path: tree.Path, steps: int) -> str:
        """The beginning of a path; without the node at which it starts, inside a predicate."""
        start = path.start if isinstance(path.start, Origin) else Origin.CONTEXT
        return self._wording.of(tree.Path(NOWHERE, start, path.steps[:steps]))


def _with(path: tree.Path, place: int, predicates: tuple[tree.Expression, ...]) -> tree.Path:
    """The path up to a step, which has these predicates."""
    step = attrs.evolve(path.steps[place], predicates=predicates)
    return attrs.evolve(path, steps=(*path.steps[:place], step))


def _leading(path: tree.Path, place: int) -> tree.Expression:
    """The nodes behind so many steps from which the rest of the path finds something."""
    reached = attrs.evolve(path, steps=path.steps[:place])
    rest = path.steps[place:]
    return those_with(reached, tree.Path(NOWHERE, Origin.CONTEXT, rest)) if rest else reached
