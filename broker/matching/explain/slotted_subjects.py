"""A shape's trees with every value a slot of its own, so that a formula tells where it looks.

The partial evaluator works out at once what depends on constants alone, and what is left does not
say any more where a constant stood. On these trees nothing is a constant.
"""

from __future__ import annotations

from typing import Any

from broker.matching.explain.substitution import SubstitutedFormula, substitute_literals
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.partial.evaluator import evaluate_template
from broker.matching.partial.source import Constant, Slot, Source, source_of
from broker.matching.partial.template import TemplateInstance
from broker.matching.shape.tree import Node, NodeKind


class SlottedSubjects:
    """What queries address in a shape, with a place for each value."""

    def __init__(self, plain: EvaluationInput) -> None:
        """A copy of the subjects of a shape."""
        self._locations: list[str | Node] = []
        self._constants: dict[int, Any] = {}
        payload = self._copy(plain.payload)
        envelope = payload if plain.envelope is plain.payload else self._copy(plain.envelope)
        variables = {
            name: Slot(self._add_location(f"${name}", source))
            for name, source in plain.variables.items()
        }
        self._subjects = EvaluationInput(payload, envelope, variables)

    def substitute_literals(self, instance: TemplateInstance) -> SubstitutedFormula:
        """What is left of a query on the shape; its slots are places."""
        decision = evaluate_template(instance.template, self._subjects)
        return substitute_literals(decision.formula, instance, self._constants)

    def location_of(self, number: int) -> str | Node:
        """The shape's own node, or the variable, whose value a place has."""
        return self._locations[number]

    def _copy(self, node: Node, parent: Node | None = None) -> Node:
        made = Node(
            node.kind,
            parent,
            node.order,
            namespace=node.namespace,
            local=node.local,
            prefix=node.prefix,
        )
        made.last = node.last
        if node.kind in (NodeKind.ATTRIBUTE, NodeKind.TEXT):
            made.value = self._add_location(node, source_of(node.value))
        made.attributes = [self._copy(each, made) for each in node.attributes]
        made.children = [self._copy(each, made) for each in node.children]
        return made

    def _add_location(self, location: str | Node, source: Source) -> int:
        number = len(self._locations)
        self._locations.append(location)
        if isinstance(source, Constant):
            self._constants[number] = source.value
        return number
