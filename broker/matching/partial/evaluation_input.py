"""What the partial evaluator is given, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from broker.matching.partial.evaluation_cache import EvaluationCache
from broker.matching.partial.formula import Formula
from broker.matching.partial.node_set import ElementsByName
from broker.matching.partial.source import Source
from broker.matching.partial.undecidable import Undecidable
from broker.matching.shape.tree import Node


class EvaluationInput:
    """What the queries of a shape address.

    `payload` is the root of the payload's document, `envelope` that of the envelope's, the same
    where there is no payload; `variables` are the sources of the envelope variables. `sharing` is
    what evaluating templates on them has in common.
    """

    def __init__(
        self,
        payload: Node,
        envelope: Node | Callable[[], Node | None],
        variables: Mapping[str, Source],
    ) -> None:
        """`envelope` may make the tree when a query asks for it; None if it can not be told."""
        self.payload = payload
        self.variables = variables
        self.elements_by_name = ElementsByName()
        self.cache = EvaluationCache()
        self._envelope = envelope

    @property
    def envelope(self) -> Node:
        """The root of the envelope's document; raises `Undecidable` if there is no tree of it."""
        if not isinstance(self._envelope, Node):
            made = self._envelope()
            if made is None:
                raise Undecidable("the envelope has what trees of documents do not have")
            self._envelope = made
        return self._envelope

    def clear_caches(self) -> None:
        """Give back what can be found again: for when no more templates are expected soon."""
        self.elements_by_name = ElementsByName()
        self.cache.clear()


@attrs.frozen
class EvaluationResult:
    """When a template's queries match on a shape; `reasons` say why parts of it are unknown.

    `visits` counts the nodes that were looked at, and other work: what the evaluation has cost.
    """

    formula: Formula
    reasons: tuple[str, ...]
    visits: int
