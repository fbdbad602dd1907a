"""What the partial evaluator is given, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.content.partial.formula import Formula
from broker.content.partial.nodesets import ElementsByName
from broker.content.partial.source import Source
from broker.content.shape.tree import Node


@attrs.frozen
class Subjects:
    """What the queries of a shape address.

    `payload` is the root of the payload's document, the envelope's again where there is none;
    `variables` are the sources of the envelope variables.
    """

    payload: Node
    envelope: Node
    variables: Mapping[str, Source]
    names: ElementsByName = attrs.field(factory=ElementsByName, eq=False, repr=False)


@attrs.frozen
class Decision:
    """When a template's queries match on a shape; `reasons` say why parts of it are unknown.

    `visits` counts the nodes that were looked at, and other work: what the evaluation has cost.
    """

    formula: Formula
    reasons: tuple[str, ...]
    visits: int
