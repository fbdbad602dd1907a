"""Copy of a shape's trees in which every value is a slot, so that formulas keep locations.

Partial evaluation computes everything that depends on constants only, and loses their locations.
These trees have no constants.
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
    """The subjects of a shape, with a location for each value."""

    def __init__(self, plain: EvaluationInput) -> None:
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
        """Evaluate a query on the shape. The slots of the result are locations."""
        decision = evaluate_template(instance.template, self._subjects)
        return substitute_literals(decision.formula, instance, self._constants)

    def location_of(self, number: int) -> str | Node:
        """Return the shape's node, or the variable, that has this location."""
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
