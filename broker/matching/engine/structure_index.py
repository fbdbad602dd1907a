"""Which families the structure of a document leaves possible (F2)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.matching.engine.query_family import QueryFamily
from broker.matching.partial.evaluation_input import EvaluationInput
from broker.matching.paths.index import PathIndex
from broker.matching.paths.label_path import LabelPath
from broker.matching.paths.pattern import DocumentRole, LabelKind
from broker.matching.paths.requirement_derivation import abstract_literals, derive_from_expression
from broker.matching.xpath_evaluation import ParsedEvent


@attrs.frozen(slots=True)
class StructureMatch:
    """Families of which queries match for certain, and others of which some may."""

    certain: Sequence[QueryFamily]
    possible: Sequence[QueryFamily]


class StructureIndex:
    """Families by the label paths that a document must have for one of their queries to match."""

    def __init__(self) -> None:
        self._index: PathIndex[QueryFamily] = PathIndex()

    def add_family(self, family: QueryFamily) -> None:
        """Take in a family, which is new."""
        template = family.template
        expression = abstract_literals(template.expression, template.parameter_at)
        self._index.add_item(derive_from_expression(expression, template.namespaces), family)

    def remove_family(self, family: QueryFamily) -> None:
        """Forget a family."""
        self._index.remove_item(family)

    def match_event(self, subject: ParsedEvent) -> StructureMatch:
        """The families of which a query may match a parsed event, as its structure has it."""
        labels = self._index.label_paths
        attributes = self._index.uses_label_kind(LabelKind.ATTRIBUTE)
        texts = self._index.uses_label_kind(LabelKind.TEXT)
        found: set[LabelPath] = set()
        for root, document in (
            (subject.document(), DocumentRole.PAYLOAD),
            (subject.envelope, DocumentRole.ENVELOPE),
        ):
            found |= labels.collect_from_tree(root, document, attributes=attributes, texts=texts)
        candidates = self._index.find_candidates(found)
        items = self._index.items_in
        return StructureMatch(
            items(candidates.certain), items(candidates.possible & ~candidates.certain)
        )

    def match_shape(self, subjects: EvaluationInput) -> list[QueryFamily]:
        """The families of which a query may match a document of a shape."""
        labels = self._index.label_paths
        found = labels.collect_from_shape(subjects.payload, DocumentRole.PAYLOAD)
        found |= labels.collect_from_shape(subjects.envelope, DocumentRole.ENVELOPE)
        return self._index.items_in(self._index.find_candidates(found).possible)
