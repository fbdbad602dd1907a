"""Input and result of the partial evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from broker.matching.partial.formula import Formula
from broker.matching.partial.node_set import ElementsByName
from broker.matching.partial.source import Source
from broker.matching.partial.work_budget import Undecidable
from broker.matching.shape.tree import Node


class EvaluationInput:
    """Documents and variables of a shape or of a parsed event.

    `payload` and `envelope` are the roots of their documents, the same without a payload.
    """

    def __init__(
        self,
        payload: Node,
        envelope: Node | Callable[[], Node | None],
        variables: Mapping[str, Source],
    ) -> None:
        """`envelope` may be a function that builds the tree on first use; None if inexact."""
        self.payload = payload
        self.variables = variables
        self.elements_by_name = ElementsByName()
        self.prefixes_vary = False
        """True if documents with other prefixes have this tree: none of its prefixes counts."""
        self.reads_prefixes = False
        """True if a result depends on a prefix of the tree."""
        self._envelope = envelope

    @property
    def envelope(self) -> Node:
        """The root of the envelope's document; raises `Undecidable` without an exact tree."""
        if not isinstance(self._envelope, Node):
            made = self._envelope()
            if made is None:
                raise Undecidable("the envelope has no exact document tree")
            self._envelope = made
        return self._envelope

    def clear_caches(self) -> None:
        self.elements_by_name = ElementsByName()


@attrs.frozen
class EvaluationResult:
    """Residual formula of a template on a shape, with reasons for its unknown parts.

    `visits` is the work done, in visited nodes.
    """

    formula: Formula
    reasons: tuple[str, ...]
    visits: int
